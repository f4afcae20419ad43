"""The knowledge graph that the hybrid retriever's design shows, as documents with entities and relations."""

from __future__ import annotations

from graphrag_core import Document

AUTH = "Core authentication service handling JWT issuance and validation..."
OAUTH = "External OAuth2 provider integration layer..."
DELEGATES = "Auth service delegates to OAuth provider for third-party login flows"
CREATES = "Auth service creates and validates user model instances during login"


def _relation(source: str, kind: str, target: str, strength: float, description: str = "") -> dict[str, object]:
    return {"source": source, "type": kind, "target": target, "strength": strength, "description": description}


def _document(name: str, text: str, *relations: dict[str, object], **entity: str) -> Document:
    entities = [{"name": name, **entity}] if entity else []
    ends = {end for relation in relations for end in (relation["source"], relation["target"])}
    entities += [{"name": end} for end in sorted(ends) if end != name or not entity]
    knowledge = {"entities": entities or [{"name": name}], "relations": list(relations)}
    return Document(name.lower().replace(" ", "-"), text, "", {"knowledge": knowledge})


DOCUMENTS = [
    _document(
        "Auth Service",
        "It issues and validates tokens.",
        _relation("Auth Service", "depends_on", "OAuth Provider", 8, DELEGATES),
        _relation("Auth Service", "implements", "User Model", 5, CREATES),
        _relation("Auth Service", "part_of", "Login Flow", 4),
        _relation("Auth Service", "uses", "Session Store", 3),
        type="concept",
        description=AUTH,
    ),
    _document(
        "OAuth Provider",
        "It speaks to vendors.",
        _relation("OAuth Provider", "implements", "Google OAuth", 6),
        _relation("OAuth Provider", "implements", "GitHub OAuth", 5),
        type="tool",
        description=OAUTH,
    ),
    _document("User Model", "A row for each person."),
    _document("Login Flow", "Three pages and a redirect."),
    _document("Session Store", "Entries expire after an hour."),
    _document("Google OAuth", "A vendor with a console."),
    _document("GitHub OAuth", "A vendor with apps."),
]
"""Each document mentions what it is about and, for the first two, the other ends of their relations."""

BLOCK = f"""\
## Knowledge Graph Context
Query entities: [Auth Service, OAuth Provider]

### Auth Service (concept)
Related: OAuth Provider (depends_on, weight: 8), User Model (implements, weight: 5),
  Login Flow (part_of, weight: 4), Session Store (uses, weight: 3)
Description: {AUTH}

### OAuth Provider (tool)
Related: Auth Service (depended_on_by, weight: 8), Google OAuth (implements, weight: 6),
  GitHub OAuth (implements, weight: 5)
Description: {OAUTH}

### Relevant Relationships
- Auth Service -> OAuth Provider: "depends_on" -- {DELEGATES} (strength: 8)
"""
"""How the design's example begins; the other relationships follow in the order of their strength."""

QUESTION = "How do Auth Service and OAuth Provider work together?"
