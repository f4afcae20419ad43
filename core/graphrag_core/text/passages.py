"""The text under which a chunk or a fact is embedded and found by keyword."""

from __future__ import annotations

from collections.abc import Sequence


def chunk_text(title: str, text: str) -> str:
    r"""Return a chunk's text with its title.

    >>> chunk_text("Auth Service", "Issues tokens.")
    'Auth Service\nIssues tokens.'
    """
    return f"{title}\n{text}" if title else text


def fact_text(title: str, text: str, relation: str, entities: Sequence[str]) -> str:
    """Return a sentence with its title, or a triple in words with its description.

    >>> fact_text("Auth Service", "It issues tokens.", "", ["Auth Service"])
    'Auth Service: It issues tokens.'
    >>> fact_text("", "It delegates logins.", "depends_on", ["Auth Service", "OAuth Provider"])
    'Auth Service depends on OAuth Provider: It delegates logins.'
    """
    if not relation:
        return f"{title}: {text}" if title else text
    words = relation.replace("_", " ")
    triple = f"{entities[0]} {words} {' '.join(entities[1:])}".rstrip() if entities else words
    plain = f"{entities[0]} {relation} {' '.join(entities[1:])}".rstrip() if entities else relation
    return triple if text in ("", triple, plain) else f"{triple}: {text}"
