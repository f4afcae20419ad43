"""Random tenants in one index: what each sees does not change, byte for byte, if others use other names and words."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import Self

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeIndex, Result
from graphrag_core.context.settings import Style
from graphrag_core.errors import InputError
from graphrag_core.strategies import ExpansionQueries, Neighbourhood, PageRank, RelatedEntities
from graphrag_core.testing import HashEmbedder
from torture.report import Row

NAMES = ("acme", "umbrella", "tyrell", "weyland")
THINGS = (
    "Keyring", "KeyRing", "KEYRING", "Auth Service", "Auth service", "OAuth Provider", "Session Store", "Gateway",
    "Billing Ledger", "Ledger", "Mara Lindqvist", "Mara", "Tariff Engine", "tariff engine", "Quay Planner", "ADR-007",
    "INC-2041", "Lisbon", "2024", "Ops", "ops", "Identity Team",
)  # fmt: skip
VERBS = ("depends on", "was replaced by", "owns", "calls", "broke", "is documented in", "belongs to", "writes to")
WORDS = (
    "token rotation outage invoice cache latency migration rollback schedule berth customs audit retention replica "
    "queue backlog certificate tariff pilot harbour region quota alert".split()
)  # fmt: skip
FORMS = ("", "s", "ing", "-grade", "_limit")
"""How the words end that one tenant alone uses."""
STYLES: tuple[Style, ...] = ("passages", "narrative", "graph", "both")
METHODS = ("hybrid", "hybrid", "hybrid", "vector", "keyword", "graph", "agentic")
STRATEGIES = (PageRank(), PageRank(), Neighbourhood(), ExpansionQueries(), RelatedEntities())
SETTINGS: tuple[Mapping[str, Any], ...] = (
    {},
    {"embed_names": True},
    {"edges": [("author", "author"), ("links", "id")]},
)


class Difference(AssertionError):
    """What a tenant sees depends on the names or the words of others."""


class Tenants:
    """An index that several tenants share, and what each of them put into it.

    Parameters
    ----------
    chance
        Decides everything that happens.
    make
        Makes an empty index: in memory, or with another engine.
    """

    def __init__(self, chance: random.Random, make: Callable[..., KnowledgeIndex] = KnowledgeIndex) -> None:
        self.chance = chance
        self.settings = chance.choice(SETTINGS)
        self._make = make
        self.shared = make(HashEmbedder(), progress=False, **self.settings)
        self.retriever = GraphRetriever(self.shared)
        self.asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.shared.close()

    # -- changes

    def change(self) -> None:
        """Add, replace and delete documents of some tenants, and tell, reject and forget facts."""
        chance = self.chance
        written = [self._document(tenant) for tenant in self._some() for _ in range(chance.randint(1, 6))]
        self.shared.add({document.id: document for document in written}.values())
        if chance.random() < 0.4:
            ids = self.shared.document_ids()
            self.shared.delete(chance.sample(ids, min(len(ids), chance.randint(1, 4))))
        for tenant in self._some():
            if chance.random() < 0.4:
                said = chance.choice(THINGS), chance.choice(VERBS).replace(" ", "_"), chance.choice(THINGS)
                fact = self.shared.memory.remember(*said, metadata={"tenant": tenant}, valid_from="2024-01-01")
                if chance.random() < 0.3:
                    self.shared.memory.reject(fact, where={"tenant": tenant})

    def _some(self) -> list[str]:
        return self.chance.sample(NAMES, self.chance.randint(1, len(NAMES)))

    def _document(self, tenant: str) -> Document:
        chance = self.chance
        number = chance.randint(0, 30)
        sentences = [self._sentence(tenant) for _ in range(chance.randint(1, 8))]
        if chance.random() < 0.4:
            sentences.insert(len(sentences) // 2, f"\n\n## {chance.choice(THINGS)}\n\n")
        metadata: dict[str, Any] = {"tenant": tenant, "year": chance.randint(2020, 2024)}
        if chance.random() < 0.5:
            metadata |= {"author": chance.choice(THINGS), "links": [f"{tenant}-{chance.randint(0, 30)}"]}
        title = chance.choice(THINGS) if chance.random() < 0.7 else ""
        return Document(f"{tenant}-{number}", " ".join(sentences), title, metadata)

    def _sentence(self, tenant: str) -> str:
        chance = self.chance
        one, other = chance.sample(THINGS, 2)
        words = " ".join(chance.choices([*WORDS, *_private_words(tenant)], k=chance.randint(1, 6)))
        if chance.random() < 0.2:
            one = f"{tenant.title()} {one}"
        if chance.random() < 0.1:
            return f"{one} ({''.join(word[0] for word in one.split()).upper()}) {chance.choice(VERBS)} {other}."
        if chance.random() < 0.1:
            return f"See [{other}]({tenant}-{chance.randint(0, 30)}) for the {words}."
        return f"{one} {chance.choice(VERBS)} {other} after the {words}."

    # -- comparison

    def compare(self) -> int:
        """Ask each tenant some questions, in the shared index and in one where others use other names and words.

        Return the number of questions.

        Raises
        ------
        Difference
            Something differs.
        """
        before = self.asked
        for tenant in NAMES:
            where = {"tenant": tenant}
            if not self.shared.document_ids(where):
                continue
            with self._make(HashEmbedder(), progress=False, **self.settings) as renamed:
                renamed.add([self._renamed(document, tenant) for document in self.shared.documents()])
                self._compare_queries(where, renamed)
                _equal("entities", where, self.shared.graph.entities(where=where), renamed.graph.entities(where=where))
                for name in self.chance.sample(THINGS, 3):
                    _equal(
                        "entity",
                        where,
                        self.shared.graph.entity(name, where=where),
                        renamed.graph.entity(name, where=where),
                    )
                    _equal(
                        "related",
                        where,
                        self.shared.graph.neighbours(name, where=where),
                        renamed.graph.neighbours(name, where=where),
                    )
                    facts = self.shared.graph.facts(name, where=where), renamed.graph.facts(name, where=where)
                    _equal("facts", where, *([_timeless(fact) for fact in own] for own in facts))
                    relations = (
                        self.shared.graph.relations(name, where=where, limit=None),
                        renamed.graph.relations(name, where=where, limit=None),
                    )
                    _equal("relations", where, *(sorted(map(_timeless, own), key=_id) for own in relations))
        return self.asked - before

    @staticmethod
    def _renamed(document: Document, tenant: str) -> Document:
        """Return a document of another tenant with other private names and words, as long and as frequent as before."""
        other = str(document.metadata["tenant"])
        if other == tenant:
            return document
        text, title = (
            part.replace(other.title(), f"X{other[1:]}").replace(f"q{other}", f"z{other}")
            for part in (document.text, document.title)
        )
        return replace(document, text=text, title=title)

    def _compare_queries(self, where: Mapping[str, Any], renamed: KnowledgeIndex) -> None:
        chance = self.chance
        for _ in range(4):
            settings: dict[str, Any] = {"method": chance.choice(METHODS), "k": chance.choice((1, 3, 5, 20))}
            graph = chance.choice(STRATEGIES)
            retrievers = [GraphRetriever(one, graph=graph) for one in (self.shared, renamed)]
            words = [*chance.sample(THINGS, chance.randint(0, 2)), *chance.sample(WORDS, chance.randint(0, 3))]
            private = [word for tenant in NAMES for word in _private_words(tenant)]
            words += chance.sample(private, chance.randint(0, 3))
            question = " ".join(chance.sample(words, len(words))) or "What broke?"
            inside = retrievers[0].retrieve(question, where=where, **settings)
            again = retrievers[0].retrieve(question, where=where, **settings)
            expected = retrievers[1].retrieve(question, where=where, **settings)
            self.asked += 1
            what = f"{question!r} {settings} {graph} {self.settings}"
            for (part, got), (_, wanted) in zip(transcript(inside), transcript(expected), strict=True):
                _equal(f"{what}: {part}", where, got, wanted)
            _equal(f"{what}, from the cache", where, replace(again, trace=inside.trace), inside)


def _private_words(tenant: str) -> list[str]:
    """Return words that one tenant alone uses."""
    return [f"q{tenant}{form}" for form in FORMS]


def transcript(result: Result) -> Iterator[tuple[str, Any]]:
    """Yield everything that a caller can see of a result, part by part, without times of this process."""
    for rank, hit in enumerate(result.hits, 1):
        yield f"hit {rank}", hit
    yield "number of hits", len(result.hits)
    yield "facts", [_timeless(fact) for fact in result.facts]
    yield "entities", result.entities
    yield "known", sorted(result.known.items())
    for name in ("confidence", "trust", "expansion_skipped", "uncovered", "fallback", "advice", "route", "graph_ran"):
        yield name, getattr(result, name)
    for style in STYLES:
        yield f"context, {style}", result.context(style=style, max_tokens=800)
    yield "explain", result.explain().rpartition("\n")[0]


def _timeless(fact: Fact) -> Fact:
    return replace(fact, last_accessed=None, access_count=0)


def _id(fact: Fact) -> str:
    return fact.id


def _equal(what: str, where: Mapping[str, Any], got: Any, wanted: Any) -> None:
    if repr(got) != repr(wanted):
        raise Difference(f"{what} in {dict(where)}:\n  in the scope: {got!r:.2000}\n  renamed:      {wanted!r:.2000}")


def run(seconds: float, seed: int | None = None) -> list[Row]:
    """Run random tenants for so many seconds; print failures and return counts."""
    first = seed = random.SystemRandom().randrange(1 << 30) if seed is None else seed
    end, asked, failures = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        with Tenants(random.Random(seed)) as tenants:
            try:
                for _ in range(4):
                    tenants.change()
                    asked += tenants.compare()
            except (Difference, InputError) as error:
                failures += 1
                print(f"tenants, seed {seed}: {error}", flush=True)
        seed += 1
    return [
        Row(
            "tenants",
            asked,
            failures,
            f"the same whatever others call what is theirs, {seed - first:,} shared indexes",
        )
    ]
