"""``Explorer``: answers the requests of the explorer's page, each within a scope.

Every answer is read from one snapshot, holds a bounded number of items, and contains nothing from outside its
``where``. Texts are made safe to display. Ids are not changed: the page sends them back and never shows them.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_apps.ask import Answer, ask
from graphrag_apps.explore.ranking import joined_most, sections_among
from graphrag_apps.page.layout import layout
from graphrag_apps.page.network import Network, build_network
from graphrag_core.context.display import (
    Highlighter,
    HitText,
    body_text,
    citation,
    excerpt,
    hit_texts,
    name_pattern,
    passage_name,
    uncovered_words,
)
from graphrag_core.context.escape import for_html, for_terminal
from graphrag_core.errors import check_integer
from graphrag_core.filters import Filter, Where, parse
from graphrag_core.ingest.remembered import changes_between, visible
from graphrag_core.model import Chunk, Community, Entity, Fact
from graphrag_core.ports import Keys
from graphrag_core.retriever import GraphRetriever
from graphrag_core.text import normalise
from graphrag_core.text.markup import plain

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

MAX_PAGE = 100
"""The most neighbours, passages or facts in one answer."""

MAX_DRAWN = 300
"""The most entities that a page draws at once."""

_SUGGESTIONS = 12
_MATCHES = 300  # entities that are looked at if too few of the ranked ones match
_START_NODES = 80  # entities on the start page
_COMMUNITY_NODES = 60
_COMMUNITIES = 12  # with a colour and a place on the start page
_NAMES_EACH = 8  # entities of each community on the start page
_MOST_COUNTED = 1 << 40
_EDGES_READ = 1_000  # of one entity, to find those between drawn entities
_EDGES_PER_NODE = 3
_KEPT_SCOPES = 16
_NEIGHBOURS = 24
_PASSAGES = 6
_FACTS = 12
_EXCERPT = 400  # characters
_WHOLE = 3_000

# How an answer's texts are made safe, by the name of their field: ids are not changed, others are cut.
_IDS = frozenset("id key chunk_id source target value community".split())
_WITH_LINES = frozenset("text pieces tooltip label".split())
_LONGEST = 20_000
_FACT_LENGTH = 400


@dataclass(frozen=True, slots=True)
class _Scope:
    """What was computed for one scope and generation, and for facts that are valid ``at`` a time.

    ``ranked`` has entities: those that the most facts join first, without sections.
    """

    at: float
    ranked: list[Entity]
    communities: list[dict[str, Any]]
    community_of: dict[str, str]
    overview: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, communities: Sequence[Community], at: float) -> _Scope:
        """Rank the entities, and name each community by its first ones."""
        ranked = joined_most(snapshot)
        community_of = {member: one.id for one in communities[:_COMMUNITIES] for member in one.members}
        first: dict[str, list[str]] = {}
        for entity in ranked:
            first.setdefault(community_of.get(entity.id, ""), []).append(entity.name)
        shown = [
            {
                "id": one.id,
                "name": ", ".join(first.get(one.id, one.names)[:3])[:80],
                "names": first.get(one.id, one.names)[:_NAMES_EACH],
                "entities": one.entities,
                "colour": colour,
            }
            for colour, one in enumerate(communities[:_COMMUNITIES])
        ]
        return cls(at, ranked, shown, community_of)


class Explorer:
    """Answers the requests of the explorer's page with a retriever, whose index is explored. Thread-safe.

    All methods return dictionaries that ``json.dumps`` accepts, and take ``where``, a filter on document metadata:
    nothing of other documents is seen, counted or named.

    Examples
    --------
    >>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
    >>> index = KnowledgeIndex()
    >>> _ = index.add([Document("a", "The Auth Service delegates to the OAuth Provider.", "Auth Service")])
    >>> explorer = Explorer(GraphRetriever(index))
    >>> [found["name"] for found in explorer.search("oau")["entities"]]
    ['OAuth Provider']
    >>> [node["name"] for node in explorer.neighbours("auth service")["nodes"]]
    ['OAuth Provider']
    """

    def __init__(self, retriever: GraphRetriever) -> None:
        self.retriever = retriever
        self.index = retriever.index
        self._scopes: dict[tuple[int, Filter | None], _Scope] = {}

    # -- what the page asks for

    def overview(self, where: Where | None = None) -> dict[str, Any]:
        """Return the start page: sizes, communities, and the graph of the entities that the most facts join."""
        with self._open(where) as view:
            scope = view.scope
            if not scope.overview:
                scope.overview.update(
                    _safe(
                        documents=len(self.index if where is None else self.index.document_ids(where)),
                        passages=view.snapshot.chunk_count,
                        entities=len(view.snapshot.top_entities(_MOST_COUNTED)),
                        communities=scope.communities,
                        graph=view.graph(view.start_ids()),
                    )
                )
            return scope.overview

    def search(self, text: str, where: Where | None = None) -> dict[str, Any]:
        """Return the entities whose names match a text that is being typed, best first, at most twelve.

        The entity of this name comes first, then names that begin with the text, then those with a word that does,
        then names that contain it; the most mentioned first.
        """
        wanted = normalise(text)
        if not wanted:
            return {"entities": [], "exact": False}
        with self._open(where) as view:
            named = find_entity(view.snapshot, wanted)
            found = {one.id: one for one in [*([named[1]] if named else []), *view.scope.ranked]}
            matching = _matching(found.values(), wanted)
            if len(matching) < _SUGGESTIONS:
                keys = view.snapshot.search_names("", wanted)[:_MATCHES]
                matching = _matching(
                    {**found, **{one.id: one for one in view.snapshot.entities(keys)}}.values(), wanted
                )
            return _safe(entities=view.nodes(matching[:_SUGGESTIONS]), exact=named is not None)

    def entity(self, name: str, where: Where | None = None) -> dict[str, Any]:
        """Return an entity with its first passages, facts and neighbours; ``{"entity": None}`` if there is none."""
        with self._open(where) as view:
            found = find_entity(view.snapshot, name)
            if found is None:
                return {"entity": None}
            keys, entity = found
            node = {**view.nodes([entity])[0], "description": entity.description, "aliases": entity.aliases[:12]}
            return _safe(
                entity=node,
                passages=view.passages(keys, entity, 0, _PASSAGES),
                facts=view.facts_of(keys, entity, 0, _FACTS),
                neighbours=view.neighbours(keys, entity, 0, _NEIGHBOURS, ()),
            )

    def neighbours(
        self, name: str, where: Where | None = None, offset: int = 0, limit: int = _NEIGHBOURS, *,
        drawn: Sequence[str] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Return a page of at most 100 entities that share a fact with an entity, strongest first.

        ``drawn`` are ids of entities that are drawn already: the edges between them and the page are returned, too.
        """
        nothing = {"nodes": [], "edges": [], "total": 0, "offset": offset}
        return self._page(name, where, offset, limit, lambda view, *found: view.neighbours(*found, drawn), nothing)

    def passages(
        self, name: str, where: Where | None = None, offset: int = 0, limit: int = _PASSAGES
    ) -> dict[str, Any]:
        """Return a page of the passages that mention an entity: those that are about it first."""
        return self._page(name, where, offset, limit, _View.passages, {"items": [], "total": 0})

    def facts(self, name: str, where: Where | None = None, offset: int = 0, limit: int = _FACTS) -> dict[str, Any]:
        """Return a page of the facts that hold an entity, strongest first."""
        return self._page(name, where, offset, limit, _View.facts_of, {"items": [], "total": 0})

    def _page(
        self,
        name: str,
        where: Where | None,
        offset: int,
        limit: int,
        read: Callable[[_View, Keys, Entity, int, int], dict[str, Any]],
        nothing: dict[str, Any],
    ) -> dict[str, Any]:
        """Return a page of what there is about an entity, or ``nothing``."""
        check_integer(offset, "offset", 0)
        check_integer(limit, "limit", 1, MAX_PAGE)
        with self._open(where) as view:
            found = find_entity(view.snapshot, name)
            return nothing if found is None else _safe(**read(view, *found, offset, limit))

    def between(self, source: str, target: str, where: Where | None = None) -> dict[str, Any]:
        """Return the facts that hold two entities: what the edge between them stands for."""
        with self._open(where) as view:
            first, last = (find_entity(view.snapshot, name) for name in (source, target))
            if first is None or last is None:
                return {"nodes": [], "items": [], "total": 0}
            facts = view.snapshot.facts_of(np.concatenate([first[0], last[0]]), joint=True)
            return _safe(nodes=view.nodes([first[1], last[1]]), **view.facts(facts, 0, _FACTS * 2))

    def community(self, id: str, where: Where | None = None) -> dict[str, Any]:  # noqa: A002 - the usual word
        """Return a community of the start page, and the graph of its top entities."""
        with self._open(where) as view:
            scope = view.scope
            found = next((one for one in scope.communities if one["id"] == id), None)
            if found is None:
                return {"community": None}
            listed = [entity.id for entity in scope.ranked if scope.community_of.get(entity.id) == id]
            return _safe(community=found, graph=view.graph(listed[:_COMMUNITY_NODES]))

    def question(self, text: str, where: Where | None = None, *, answer: bool = True) -> dict[str, Any]:
        """Return the best sentences for a question, if asked, the passages with their reasons, and their paths."""
        answered = ask(self.retriever, text, where=where) if answer else None
        result = self.retriever.retrieve(text, where=where) if answered is None else answered.result
        with self._open(where) as view:
            pass  # closed before the reasons of the result are read, which may open another snapshot
        network, names = build_network(result), {key: entity.name for key, entity in result.known.items()}
        texts = Highlighter(result)
        return _safe(
            question=text,
            answer=None if answered is None else _answer(answered),
            method=result.method,
            entities=view.nodes(result.entities),
            notes=[note for note in (result.route, result.fallback, uncovered_words(result)) if note],
            decided=result.decided,
            advice=result.advice,
            hits=[_hit(shown, texts) for shown in hit_texts(result)],
            facts=[_fact(fact, names) for fact in result.facts[: 2 * _FACTS]],
            network=_network(network, view.scope),
        )

    # -- scopes

    @contextmanager
    def _open(self, where: Where | None) -> Iterator[_View]:
        """Open a snapshot of a scope, with what was computed for it."""
        parsed, engine = None if where is None else parse(where), self.index.engine
        scope = self._scope_of(parsed)
        with engine.snapshot(visible(engine, parsed, scope.at)) as snapshot:
            yield _View(snapshot, scope)

    def _scope_of(self, parsed: Filter | None) -> _Scope:
        """Return what was computed for a scope; compute it after a change of the index."""
        now, engine = time.time(), self.index.engine
        with engine.snapshot() as snapshot:
            key = snapshot.generation, parsed
        scope = self._scopes.get(key)
        if scope is None or changes_between(engine, scope.at, now):
            communities = self.index.graph.communities(where=parsed)
            with engine.snapshot(visible(engine, parsed, now)) as snapshot:
                scope = _Scope.of(snapshot, communities, now)
            # Replaced as a whole, so that threads need no lock: at worst a scope is computed twice.
            self._scopes = dict([*self._scopes.items(), (key, scope)][-_KEPT_SCOPES:])
        return scope


@dataclass(frozen=True, slots=True)
class _View:
    """An open snapshot of a scope: the parts of answers that are read from it."""

    snapshot: Snapshot
    scope: _Scope

    def start_ids(self) -> list[str]:
        """Return the entities of the start page: the first of each community, and others; the most joined first."""
        seen, ranked = Counter[str](), [entity.id for entity in self.scope.ranked]
        first = set[str]()
        for entity_id in ranked:
            community = self.scope.community_of.get(entity_id)
            seen.update([community] if community else ())
            if community and seen[community] <= _NAMES_EACH:
                first.add(entity_id)
        others = [entity_id for entity_id in ranked if entity_id not in first]
        shown = first.union(others[: max(0, _START_NODES - len(first))])
        return [entity_id for entity_id in ranked if entity_id in shown]

    def nodes(self, entities: Sequence[Entity]) -> list[dict[str, Any]]:
        fields = ("id", "name", "type", "mentions")
        sections = sections_among(self.snapshot, entities)
        return [
            {
                **{name: getattr(entity, name) for name in fields},
                "kind": "section" if entity.id in sections else "thing",
                "community": self.scope.community_of.get(entity.id),
            }
            for entity in entities
        ]

    def graph(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return entities and the strongest edges between them."""
        keys = _keys(self.snapshot, ids)
        entities = list({entity.id: entity for entity in self.snapshot.entities(keys)}.values())
        return {"nodes": self.nodes(entities), "edges": _sparse(self.edges(keys, keys))}

    def neighbours(self, keys: Keys, entity: Entity, offset: int, limit: int, drawn: Sequence[str]) -> dict[str, Any]:
        found = self.snapshot.neighbours(keys, to="entities")
        others = ~np.isin(found.targets, keys)
        targets, weights = found.targets[others], found.weights[others]
        page = targets[np.lexsort((targets, -weights))][offset : offset + limit]
        # A section is what it is about.
        read = {near.id: near for near in self.snapshot.entities(page) if near.id != entity.id}
        near = np.unique(np.concatenate([keys, page, _keys(self.snapshot, drawn[:MAX_DRAWN])]))
        edges = self.edges(np.concatenate([keys, page]), near)
        direct = [edge for edge in edges if entity.id in (edge["source"], edge["target"])]
        return {
            "nodes": self.nodes(list(read.values())),
            "edges": direct + _sparse([edge for edge in edges if edge not in direct]),
            "total": len(targets),
            "offset": offset,
        }

    def edges(self, sources: Keys, among: Keys) -> list[dict[str, Any]]:
        """Return the edges from some entities to others, each once, strongest first."""
        if len(sources) == 0 or len(among) == 0:
            return []
        sources = np.unique(sources)
        found = self.snapshot.neighbours(sources, to="entities", limit=_EDGES_READ)
        starts = np.repeat(sources, found.counts)
        kept = np.isin(found.targets, among) & (found.targets != starts)
        keys = np.unique(np.concatenate([sources, among]))
        ids = {key: entity.id for key, entity in zip(keys.tolist(), self.snapshot.entities(keys), strict=True)}
        edges: dict[tuple[str, str], float] = {}
        columns = starts[kept].tolist(), found.targets[kept].tolist(), found.weights[kept].tolist()
        for source, target, weight in zip(*columns, strict=True):
            first, last = sorted((ids[source], ids[target]))
            if first != last:
                edges[first, last] = max(weight, edges.get((first, last), 0.0))
        ordered = sorted(edges.items(), key=lambda item: (-item[1], item[0]))
        return [{"source": first, "target": last, "weight": round(weight, 2)} for (first, last), weight in ordered]

    def passages(self, keys: Keys, entity: Entity, offset: int, limit: int) -> dict[str, Any]:
        found = self.snapshot.neighbours(keys, to="chunks", limit=offset + limit)
        names = name_pattern((entity.name, *entity.aliases))
        chunks = self.snapshot.chunks(found.targets[offset:])
        items = [
            {**_passage(chunk, names), "about": weight > 1}
            for chunk, weight in zip(chunks, found.weights[offset:].tolist(), strict=True)
        ]
        return {"items": items, "total": max(entity.mentions, offset + len(items))}

    def facts_of(self, keys: Keys, _: Entity, offset: int, limit: int) -> dict[str, Any]:
        return self.facts(self.snapshot.facts_of(keys), offset, limit)

    def facts(self, facts: Keys, offset: int, limit: int) -> dict[str, Any]:
        """Return some of the facts, strongest first, and their number."""
        read = self.snapshot.facts(strongest(self.snapshot, facts)[offset : offset + limit])
        keys = self.snapshot.find_entities({name for fact in read for name in fact.entities})
        entities = self.snapshot.entities(np.array(list(keys.values()), np.int64))
        names = {key: entity.name for key, entity in zip(keys, entities, strict=True)}
        return {"items": [_fact(fact, names) for fact in read], "total": len(facts)}


def find_entity(snapshot: Snapshot, name: str) -> tuple[Keys, Entity] | None:
    """Return the key and the value of the entity of a name; None if there is none."""
    keys = _keys(snapshot, [normalise(name)])
    return (keys, snapshot.entities(keys)[0]) if len(keys) else None


def _matching(entities: Iterable[Entity], wanted: str) -> list[Entity]:
    """Return the entities whose names match a text: those of this name, of one that begins with it, and so on."""
    groups: tuple[list[Entity], ...] = ([], [], [], [])
    for entity in entities:
        names = [f" {name}" for name in (entity.id, *map(normalise, entity.aliases))]
        tests = (
            f" {wanted}" in names,
            any(name.startswith(f" {wanted}") for name in names),
            any(f" {wanted}" in name for name in names),
            any(wanted in name for name in names),
        )
        if any(tests):
            groups[tests.index(True)].append(entity)
    return [entity for group in groups for entity in group]


def strongest(snapshot: Snapshot, facts: Keys) -> Keys:
    """Return facts by weight, then by id."""
    return facts[np.lexsort((snapshot.fact_order(facts), -snapshot.fact_rows(facts).weights))]


def _keys(snapshot: Snapshot, ids: Iterable[str]) -> Keys:
    """Return the keys of the entities of normalised names, each once and in order; unknown names are left out."""
    wanted = list(dict.fromkeys(ids))
    found = snapshot.find_entities(wanted)
    return np.array(list(dict.fromkeys(found[name] for name in wanted if name in found)), np.int64)


def _sparse(edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the edges that are among the strongest of one of their ends, so that a dense graph stays readable."""
    seen: Counter[str] = Counter()
    kept = []
    for edge in edges:
        if min(seen[edge["source"]], seen[edge["target"]]) < _EDGES_PER_NODE:
            kept.append(edge)
            seen.update((edge["source"], edge["target"]))
    return kept


# -- values as JSON


def _hit(shown: HitText, texts: Highlighter) -> dict[str, Any]:
    hit = shown.hit
    path = [
        {"kind": step.kind, "id": step.id if step.kind == "entity" else None, "text": _short(step.text)}
        for step in shown.path
    ]
    return {
        "rank": shown.rank, "name": passage_name(hit.chunk), "score": round(hit.score, 4),
        "by_graph": hit.origin == "graph", "path": path, "found": shown.found, "link": "".join(shown.link),
        "pieces": list(texts.pieces(texts.snippet(hit, _EXCERPT))), **_source(hit.chunk),
    }  # fmt: skip


def _passage(chunk: Chunk, names: re.Pattern[str]) -> dict[str, Any]:
    """Return a passage with a snippet around the first mention of an entity. The entity's names are marked in it."""
    text = " ".join(plain(body_text(chunk)).split())
    found = names.search(text)
    part = excerpt(text, found.start() if found else 0, _EXCERPT)
    pieces = [(piece, bool(at % 2)) for at, piece in enumerate(names.split(part)) if piece]
    return {"pieces": pieces, **_source(chunk)}


def _source(chunk: Chunk) -> dict[str, Any]:
    """Return where a passage stands, and its text, cut if it is very long."""
    text = body_text(chunk)
    return {
        "chunk_id": chunk.id,
        "document": chunk.document_id,
        "label": _short(citation(chunk), 160),
        "text": text[:_WHOLE] + (" …" if len(text) > _WHOLE else ""),
    }


def _fact(fact: Fact, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": fact.id,
        "text": _short(plain(fact.text)),
        "relation": fact.relation.replace("_", " "),
        "entities": [{"id": key, "name": names.get(key) or key} for key in fact.entities[:8]],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    fields = ("number", "title", "section", "page", "chunk_id")
    cited = [{name: getattr(citation, name) for name in fields} for citation in answer.citations]
    return {"text": answer.text, "kind": answer.kind, "cited": answer.cited, "citations": cited}


def _network(network: Network, scope: _Scope) -> dict[str, Any]:
    """Return the graph of a result with the positions of its nodes, and the points that its lines pass."""
    placed = layout(network)
    nodes = [
        {
            "key": box.node.key,
            "kind": box.node.kind,
            "id": box.node.entity_id,
            "community": scope.community_of.get(box.node.entity_id or ""),
            "label": "\n".join(box.label),
            "note": box.note,
            "tooltip": box.node.tooltip,
            "hits": sorted(box.node.hits),
            **{name: round(getattr(box, name), 1) for name in ("x", "y", "width", "height")},
        }
        for box in placed.boxes
    ]
    edges = [
        {"source": line.edge.source, "target": line.edge.target, "kind": line.edge.kind, "hits": sorted(line.edge.hits),
         "text": "\n".join(map(_short, line.edge.texts[:3])),
         "points": [[round(x, 1), round(y, 1)] for x, y in line.points]}
        for line in placed.lines
        if line.edge.kind != "hidden"
    ]  # fmt: skip
    return {"width": placed.width, "height": placed.height, "nodes": nodes, "edges": edges}


def _short(text: str, length: int = _FACT_LENGTH) -> str:
    text = " ".join(text[: 2 * length].split())
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def _safe(**answer: Any) -> dict[str, Any]:
    """Return an answer whose texts are safe to display, and cut if they are too long; ids are not changed."""
    return {name: _safe_value(name, value) for name, value in answer.items()}


def _safe_value(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _safe(**value)
    if isinstance(value, (list, tuple)):
        return [_safe_value(name, inner) for inner in value]
    if not isinstance(value, str) or name in _IDS:
        return value
    text = for_html(for_terminal(value[:_LONGEST]))
    text = text if name in _WITH_LINES else _short(text)
    return text or ("(unnamed)" if name == "name" else "")
