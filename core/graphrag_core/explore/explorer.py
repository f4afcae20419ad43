"""``Explorer``: what the page asks for, one small answer at a time, each within a scope.

Every answer is read from one snapshot, holds a bounded number of items, and contains nothing from outside its
``where``. Texts are made safe to display (no control characters, no invisible or direction-changing ones); ids are left
as they are, since the page sends them back and never shows them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphrag_core import forks
from graphrag_core.communities import State
from graphrag_core.context.display import (
    Highlighter,
    body_text,
    citation,
    copies_note,
    covered_words,
    excerpt,
    how_found,
    link_words,
    linked_path,
    name_pattern,
    readable,
    uncovered_words,
)
from graphrag_core.context.escape import for_html, for_terminal
from graphrag_core.errors import InputError
from graphrag_core.explain.layout import layout
from graphrag_core.explain.network import Network, build_network, passage_name
from graphrag_core.filters import Filter, Where, parse
from graphrag_core.ingest.remembered import FACT_KEY, visible
from graphrag_core.model import Chunk, Community, Entity, Fact
from graphrag_core.ports import Keys, Snapshot
from graphrag_core.query.ask import Answer
from graphrag_core.query.steering import near_names
from graphrag_core.result import Hit, Result
from graphrag_core.retriever import GraphRetriever
from graphrag_core.text import normalise

MAX_PAGE = 100
"""The most neighbours, passages or facts in one answer."""

MAX_DRAWN = 300
"""The most entities that a page draws at once."""

_SUGGESTIONS = 12
_START_NODES = 80  # entities on the start page
_COMMUNITY_NODES = 60
_MOST_FIRST = 5_000  # entities that are counted by type and kept with their communities; others are looked up
_COMMUNITIES = 12  # with a colour and a place on the start page
_NAMES_EACH = 8  # entities of each community on the start page
_MOST_LISTED = 100_000  # names that suggestions search; others are found by their whole name
_MOST_COUNTED = 1 << 40
_READ_AT_ONCE = 2_000
_EDGES_READ = 1_000  # of one entity, to find those between drawn entities
_EDGES_PER_NODE = 3
_KEPT_SCOPES = 16
_KEPT_SECONDS = 60.0  # since facts begin and cease to be valid
_PASSAGES = 6
_FACTS = 12
_EXCERPT = 340  # characters
_WHOLE = 3_000
_TYPES = 24
_FIELDS = 8
_FIELD_VALUES = 20
_NAME_LENGTH = 160
_FACT_LENGTH = 400


@dataclass(slots=True, eq=False)
class _Scope:
    """What is the same for all requests in one scope, until the index changes. It is filled under ``lock``.

    ``colours`` has the communities of the start page by id, ``communities_of`` returns those of entities, broadest
    first. ``names`` has the spellings of all entities, each after a line break; it is read when names are searched.
    """

    until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    most_mentioned: list[Entity] = field(default_factory=list)
    communities: list[dict[str, Any]] = field(default_factory=list)
    colours: dict[str, int] = field(default_factory=dict)
    communities_of: Callable[[Iterable[str]], list[tuple[str, ...]]] = lambda ids: [() for _ in ids]
    overview: dict[str, Any] = field(default_factory=dict)
    names: list[tuple[str, Entity]] | None = None


class Explorer:
    """Answers the requests of the explorer's page.

    Parameters
    ----------
    retriever
        Answers questions; its index is what is explored.
    llm
        What writes the answer to a question: anything that :meth:`GraphRetriever.ask` takes. Without one the best
        sentences of the passages are shown.

    All methods return dictionaries that ``json.dumps`` accepts, and take ``where``, a filter on document metadata:
    nothing of other documents is seen, counted or named. They are safe to call from many threads.

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

    def __init__(self, retriever: GraphRetriever, *, llm: Any = None) -> None:
        self.retriever = retriever
        self.index = retriever.index
        self.llm = llm
        self._scopes: OrderedDict[tuple[int, Filter | None], _Scope] = OrderedDict()
        self._lock = threading.Lock()
        forks.watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held. For :mod:`graphrag_core.forks`."""
        self._lock = threading.Lock()

    # -- what the page asks for

    def overview(self, where: Where | None = None) -> dict[str, Any]:
        """Return the start page: sizes, communities, types, fields for filters, and the graph of the top entities."""
        with self._open(where) as (snapshot, scope):
            if not scope.overview:
                documents = len(self.index) if where is None else sum(1 for _ in self.index.document_ids(where))
                keys = self._start_keys(snapshot, scope)
                scope.overview = {
                    "documents": documents,
                    "passages": snapshot.chunk_count,
                    "entities": len(snapshot.top_entities(_MOST_COUNTED)),
                    "types": [
                        {"type": _safe(kind, 40), "value": kind, "entities": count}
                        for kind, count in Counter(entity.type for entity in scope.most_mentioned).most_common(_TYPES)
                        if kind
                    ],
                    "fields": _fields(snapshot, keys),
                    "communities": [one for one in scope.communities if one["id"] in scope.colours],
                    "graph": self._graph(snapshot, keys, scope),
                }
            return scope.overview

    def search(self, text: str, where: Where | None = None, *, type: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Return the entities whose names match a text that is being typed, best first, at most twelve.

        A name that begins with the text comes before one of which another word does, and that before one that contains
        it; among equals the most mentioned comes first.
        """
        wanted = normalise(text)
        with self._open(where) as (snapshot, scope):
            named = find_entity(snapshot, wanted)
            exact = [named[1]] if named is not None and type in (None, named[1].type) else []
            groups: tuple[list[Entity], ...] = ([], [], [])
            for spellings, entity in self._names(snapshot, scope):
                if not wanted or wanted not in spellings or type not in (None, entity.type):
                    continue
                group = 0 if f"\n{wanted}" in spellings else 1 if f" {wanted}" in spellings else 2
                if len(groups[group]) < _SUGGESTIONS:
                    groups[group].append(entity)
            found = {entity.id: entity for entity in [*exact, *groups[0], *groups[1], *groups[2]]}
            best = list(found.values())[:_SUGGESTIONS]
            return {"entities": self._nodes(best, scope), "exact": bool(exact)}

    def entity(self, name: str, where: Where | None = None) -> dict[str, Any]:
        """Return an entity with its first passages, facts and neighbours; ``{"entity": None}`` if there is none."""
        with self._open(where) as (snapshot, scope):
            found = find_entity(snapshot, name)
            if found is None:
                return {"entity": None}
            keys, entity = found
            node = self._nodes([entity], scope)[0]
            shown = {
                "description": _safe(entity.description, 600),
                "aliases": [_safe(a) for a in entity.aliases[:12]],
            }
            return {
                "entity": {**node, **shown},
                "passages": self._passages(snapshot, keys, entity, 0, _PASSAGES),
                "facts": _fact_page(snapshot, snapshot.facts_of(keys), 0, _FACTS),
                "neighbours": self._neighbours(snapshot, keys, entity, scope, 0, 24, ()),
            }

    def near_names(self, name: str, where: Where | None = None) -> list[str]:
        """Return the names of entities that are most similar to a name in spelling."""
        with self._open(where) as (snapshot, _):
            return near_names(snapshot, name)

    def neighbours(
        self,
        name: str,
        where: Where | None = None,
        offset: int = 0,
        limit: int = 24,
        *,
        drawn: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return a page of the entities that share a fact with an entity, strongest first.

        Parameters
        ----------
        name
            The name or the id of the entity.
        where
            A filter.
        offset, limit
            Which of them: at most 100.
        drawn
            The ids of entities that are drawn already: the edges between them and the page are returned, too.
        """
        _check_page(offset, limit)
        with self._open(where) as (snapshot, scope):
            found = find_entity(snapshot, name)
            if found is None:
                return {"nodes": [], "edges": [], "total": 0, "offset": offset}
            return self._neighbours(snapshot, *found, scope, offset, limit, drawn)

    def passages(
        self, name: str, where: Where | None = None, offset: int = 0, limit: int = _PASSAGES
    ) -> dict[str, Any]:
        """Return a page of the passages that mention an entity: those that are about it first."""
        _check_page(offset, limit)
        with self._open(where) as (snapshot, _):
            found = find_entity(snapshot, name)
            return self._passages(snapshot, *found, offset, limit) if found else {"items": [], "total": 0}

    def facts(self, name: str, where: Where | None = None, offset: int = 0, limit: int = _FACTS) -> dict[str, Any]:
        """Return a page of the facts that hold an entity, strongest first."""
        _check_page(offset, limit)
        with self._open(where) as (snapshot, _):
            found = find_entity(snapshot, name)
            facts = snapshot.facts_of(found[0]) if found else np.array([], np.int64)
            return _fact_page(snapshot, facts, offset, limit)

    def between(self, source: str, target: str, where: Where | None = None) -> dict[str, Any]:
        """Return the facts that hold two entities: what the edge between them stands for."""
        with self._open(where) as (snapshot, scope):
            ends = [find_entity(snapshot, name) for name in (source, target)]
            if ends[0] is None or ends[1] is None:
                return {"nodes": [], "items": [], "total": 0}
            keys = np.concatenate([ends[0][0], ends[1][0]])
            facts = snapshot.facts_of(keys, joint=True)
            nodes = self._nodes([ends[0][1], ends[1][1]], scope)
            return {"nodes": nodes, **_fact_page(snapshot, facts, 0, _FACTS * 2)}

    def community(self, id: str, where: Where | None = None) -> dict[str, Any]:  # noqa: A002 - the usual word
        """Return a community with those it consists of and the graph of its top entities."""
        with self._open(where) as (snapshot, scope):
            known = {one["id"]: one for one in scope.communities}
            if id not in known:
                return {"community": None}
            paths = scope.communities_of(entity.id for entity in scope.most_mentioned)
            listed = [entity.id for entity, path in zip(scope.most_mentioned, paths, strict=True) if id in path]
            keys = _keys(snapshot, listed[:_COMMUNITY_NODES])
            children = [one for one in scope.communities if one["parent"] == id]
            parent = known.get(known[id]["parent"] or "")
            return {
                "community": known[id],
                "children": children[:24],
                "parent": parent,
                "graph": self._graph(snapshot, keys, scope),
            }

    def question(self, text: str, where: Where | None = None, *, answer: bool = True) -> dict[str, Any]:
        """Return the answer to a question, the passages with their reasons, and the graph of their paths.

        Parameters
        ----------
        text
            The question.
        where
            A filter.
        answer
            False leaves the answer in words out, which a language model may take long to write.
        """
        answered = self.retriever.ask(text, self.llm, where=where) if answer else None
        result = self.retriever.retrieve(text, where=where) if answered is None else answered.result
        with self._open(where) as (_, scope):
            pass  # closed before the reasons of the result are read, which may open another snapshot
        return {
            "question": _safe(text),
            "answer": None if answered is None else _answer(answered),
            **self._result(result, scope),
        }

    # -- scopes

    @contextmanager
    def _open(self, where: Where | None) -> Iterator[tuple[Snapshot, _Scope]]:
        """Open a snapshot of a scope, with what was computed for it."""
        parsed = None if where is None else parse(where)
        now, engine = time.time(), self.index.engine
        state: State | None = None
        while True:
            with engine.snapshot(visible(engine, parsed, now)) as snapshot:
                scope = self._scope_of(snapshot.generation, parsed, now)
                with scope.lock:
                    if not scope.most_mentioned and state is not None:
                        self._fill(scope, snapshot, state)
                if scope.most_mentioned or state is not None:
                    yield snapshot, scope
                    return
            # Not within a snapshot: who computes communities waits for a snapshot, which a writer may hold up until
            # this one is closed.
            state = self.index.graph.community_store.state(parsed)

    def _scope_of(self, generation: int, parsed: Filter | None, now: float) -> _Scope:
        key = generation, parsed
        with self._lock:
            scope = self._scopes.get(key)
            if scope is None or scope.until < now:
                scope = self._scopes[key] = _Scope(now + _KEPT_SECONDS)
            self._scopes.move_to_end(key)
            while len(self._scopes) > _KEPT_SCOPES:
                self._scopes.popitem(last=False)
        return scope

    @staticmethod
    def _fill(scope: _Scope, snapshot: Snapshot, state: State) -> None:
        found = [one.community for one in state.described.values()]
        top = [one.id for one in found if one.level == 0][:_COMMUNITIES]
        scope.colours = {key: colour for colour, key in enumerate(top)}
        parents = {one.id: one.parent for one in found}
        scope.communities = [_community(one, _root(one.id, parents), scope.colours) for one in found]
        scope.communities_of = state.paths_of
        scope.most_mentioned = snapshot.entities(snapshot.top_entities(_MOST_FIRST))

    @staticmethod
    def _names(snapshot: Snapshot, scope: _Scope) -> list[tuple[str, Entity]]:
        """Return the spellings of all entities, which takes seconds for 100,000 the first time."""
        with scope.lock:
            if scope.names is None:
                keys = snapshot.top_entities(_MOST_LISTED)
                pages = (keys[start : start + _READ_AT_ONCE] for start in range(0, len(keys), _READ_AT_ONCE))
                scope.names = [(_spellings(entity), entity) for page in pages for entity in snapshot.entities(page)]
            return scope.names

    @staticmethod
    def _start_keys(snapshot: Snapshot, scope: _Scope) -> Keys:
        """Return the entities of the start page: the first of each community, then the most mentioned."""
        first: dict[str, list[str]] = {key: [] for key in scope.colours}
        paths = scope.communities_of(entity.id for entity in scope.most_mentioned)
        for entity, path in zip(scope.most_mentioned, paths, strict=True):
            listed = first.get(path[0] if path else "")
            if listed is not None and len(listed) < _NAMES_EACH:
                listed.append(entity.id)
        ids = dict.fromkeys([one for listed in first.values() for one in listed])
        ids.update(dict.fromkeys(entity.id for entity in scope.most_mentioned[: max(0, _START_NODES - len(ids))]))
        return _keys(snapshot, ids)

    # -- parts of answers

    @staticmethod
    def _nodes(entities: Sequence[Entity], scope: _Scope) -> list[dict[str, Any]]:
        communities = scope.communities_of(entity.id for entity in entities)
        return [
            {
                "id": entity.id,
                "name": _safe(entity.name, _NAME_LENGTH) or "(unnamed)",
                "type": _safe(entity.type, 40),
                "mentions": entity.mentions,
                "community": (path[0] or None) if path else None,
            }
            for entity, path in zip(entities, communities, strict=True)
        ]

    def _graph(self, snapshot: Snapshot, keys: Keys, scope: _Scope) -> dict[str, Any]:
        """Return entities and the strongest edges between them."""
        entities = list({entity.id: entity for entity in snapshot.entities(keys)}.values())
        return {
            "nodes": self._nodes(entities, scope),
            "edges": _strongest(_edges(snapshot, keys, keys)),
        }

    def _neighbours(
        self,
        snapshot: Snapshot,
        keys: Keys,
        entity: Entity,
        scope: _Scope,
        offset: int,
        limit: int,
        drawn: Sequence[str],
    ) -> dict[str, Any]:
        found = snapshot.neighbours(keys, to="entities")
        others = ~np.isin(found.targets, keys)
        targets, weights = found.targets[others], found.weights[others]
        order = np.lexsort((targets, -weights))
        page = targets[order][offset : offset + limit]
        read = {
            near.id: near for near in snapshot.entities(page) if near.id != entity.id
        }  # a section is what it is about
        near = np.unique(np.concatenate([keys, page, _keys(snapshot, drawn[:MAX_DRAWN])]))
        edges = _edges(snapshot, np.concatenate([keys, page]), near)
        direct = [edge for edge in edges if entity.id in (edge["source"], edge["target"])]
        return {
            "nodes": self._nodes(list(read.values()), scope),
            "edges": direct + _strongest([edge for edge in edges if edge not in direct]),
            "total": len(targets),
            "offset": offset,
        }

    @staticmethod
    def _passages(snapshot: Snapshot, keys: Keys, entity: Entity, offset: int, limit: int) -> dict[str, Any]:
        found = snapshot.neighbours(keys, to="chunks", limit=offset + limit)
        names = name_pattern((entity.name, *entity.aliases))
        chunks = snapshot.chunks(found.targets[offset:])
        about = (found.weights[offset:] > 1).tolist()
        items = [{**_passage(chunk, names), "about": is_about} for chunk, is_about in zip(chunks, about, strict=True)]
        return {"items": items, "total": max(entity.mentions, offset + len(items))}

    def _result(self, result: Result, scope: _Scope) -> dict[str, Any]:
        """Return the hits of a result with their reasons, and the graph of the explain page."""
        texts, network = Highlighter(result), build_network(result)
        paths = zip(network.known, scope.communities_of(network.known), strict=True)
        communities = {key: path[0] for key, path in paths if path}
        names = {key: _safe(entity.name, _NAME_LENGTH) for key, entity in network.known.items()}
        return {
            "method": result.method,
            "entities": self._nodes(result.entities, scope),
            "notes": [_safe(note) for note in (result.route, result.fallback, uncovered_words(result)) if note],
            "graph_use": _safe(result.expansion_skipped or result.gate),
            "advice": _safe(result.advice),
            "hits": [_hit(rank, hit, result, texts) for rank, hit in enumerate(result.hits, 1)],
            "facts": [_fact(fact, names) for fact in result.facts[: 2 * _FACTS]],
            "network": _network(network, communities),
        }


# -- values as JSON


def _spellings(entity: Entity) -> str:
    spellings = dict.fromkeys([entity.id, *map(normalise, entity.aliases)])
    return "".join(f"\n{spelling}" for spelling in spellings)


def _hit(rank: int, hit: Hit, result: Result, texts: Highlighter) -> dict[str, Any]:
    return {
        "rank": rank,
        "name": _safe(passage_name(hit)),
        "score": round(hit.score, 4),
        "by_graph": hit.origin == "graph",
        "path": [
            {
                "kind": step.kind,
                "id": step.id if step.kind == "entity" else None,
                "text": _safe(step.text, _FACT_LENGTH),
            }
            for step in linked_path(result, hit)
        ],
        "found": _safe(how_found(hit)),
        "link": _safe(link_words(hit)),
        "adds": _safe(covered_words(hit)),
        "copies": copies_note(hit),
        "pieces": [[_safe(text, lines=True), marked] for text, marked in texts.pieces(texts.snippet(hit, _EXCERPT))],
        **_source(hit.chunk),
    }


def _network(network: Network, communities: Mapping[str, str]) -> dict[str, Any]:
    """Return the graph of a result with the places of its nodes."""
    placed = layout(network)
    nodes = [
        {
            "key": box.node.key,
            "kind": box.node.kind,
            "id": box.node.entity_id,
            "community": communities.get(box.node.entity_id or "") or None,
            "label": "\n".join(_safe(line) for line in box.label),
            "note": _safe(box.note),
            "tooltip": _safe(box.node.tooltip, 600, lines=True),
            "hits": sorted(box.node.hits),
            **{name: round(getattr(box, name), 1) for name in ("x", "y", "width", "height")},
        }
        for box in placed.boxes
    ]
    edges = [
        {
            "source": edge.source,
            "target": edge.target,
            "kind": edge.kind,
            "hits": sorted(edge.hits),
            "text": "\n".join(_safe(text, _FACT_LENGTH) for text in edge.texts[:3]),
        }
        for edge in network.edges.values()
        if edge.kind != "hidden"
    ]
    return {"width": placed.width, "height": placed.height, "nodes": nodes, "edges": edges}


def _root(community_id: str, parents: Mapping[str, str]) -> str:
    """Return the broadest community that holds a community."""
    while parents.get(community_id):
        community_id = parents[community_id]
    return community_id


def _community(one: Community, root: str, colours: Mapping[str, int]) -> dict[str, Any]:
    names = [_safe(name, _NAME_LENGTH) for name in one.names[:12]]
    return {
        "id": one.id,
        "level": one.level,
        "parent": one.parent or None,
        "name": _safe(one.name, 80) or ", ".join(names[:3]) or "(unnamed)",
        "names": names,
        "entities": one.entities,
        "documents": one.documents,
        "description": _safe(one.description, 1_000),
        "sentences": [_safe(readable(sentence), _FACT_LENGTH) for sentence in one.sentences[:5]],
        "root": root,
        "colour": colours.get(root),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    """Return an answer with its citations, as :class:`graphrag_core.Answer` has them."""
    return {
        "text": _safe(answer.text, 20_000, lines=True),
        "kind": answer.kind,
        "cited": bool(answer.cited),
        "citations": [
            {
                "number": one.number,
                "title": _safe(one.title, _NAME_LENGTH),
                "section": _safe(one.section or "", _NAME_LENGTH),
                "page": one.page,
                "chunk_id": one.chunk_id,
            }
            for one in answer.citations
        ],
    }


def _passage(chunk: Chunk, names: Any) -> dict[str, Any]:
    """Return a passage with the part around the first mention of an entity, in pieces that are a name or not."""
    text = " ".join(readable(body_text(chunk)).split())
    found = names.search(text)
    part = excerpt(text, found.start() if found else 0, _EXCERPT)
    pieces = [[_safe(piece, lines=True), bool(at % 2)] for at, piece in enumerate(names.split(part)) if piece]
    return {"pieces": pieces, **_source(chunk)}


def _source(chunk: Chunk) -> dict[str, Any]:
    """Return where a passage stands, and its text, cut if it is very long."""
    text = body_text(chunk)
    return {
        "chunk_id": chunk.id,
        "document": _safe(chunk.document_id, _NAME_LENGTH),
        "label": _safe(citation(chunk), _NAME_LENGTH),
        "text": _safe(text[:_WHOLE], _WHOLE, lines=True) + (" …" if len(text) > _WHOLE else ""),
    }


def _fact(fact: Fact, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": fact.id,
        "text": _safe(readable(fact.text), _FACT_LENGTH),
        "relation": _safe(fact.relation.replace("_", " "), 60),
        "entities": [{"id": key, "name": names.get(key) or _safe(key, _NAME_LENGTH)} for key in fact.entities[:8]],
        "chunk_id": fact.chunk_id,
    }


def strongest(snapshot: Snapshot, facts: Keys) -> Keys:
    """Return facts by weight, those of equal weight in order of id."""
    return facts[np.lexsort((snapshot.id_order("facts", facts), -snapshot.fact_rows(facts).weights))]


def _fact_page(snapshot: Snapshot, facts: Keys, offset: int, limit: int) -> dict[str, Any]:
    """Return some of the facts, strongest first, and their number."""
    read = snapshot.facts(strongest(snapshot, facts)[offset : offset + limit])
    names = _names_of(snapshot, {name for fact in read for name in fact.entities})
    return {"items": [_fact(fact, names) for fact in read], "total": len(facts)}


def _edges(snapshot: Snapshot, sources: Keys, among: Keys) -> list[dict[str, Any]]:
    """Return the edges from some entities to others, each once, strongest first."""
    if len(sources) == 0 or len(among) == 0:
        return []
    sources = np.unique(sources)
    found = snapshot.neighbours(sources, to="entities", limit=_EDGES_READ)
    starts = np.repeat(sources, found.counts)
    kept = np.isin(found.targets, among) & (found.targets != starts)
    keys = np.unique(np.concatenate([sources, among]))
    ids = {key: entity.id for key, entity in zip(keys.tolist(), snapshot.entities(keys), strict=True)}
    edges: dict[tuple[str, str], float] = {}
    columns = starts[kept].tolist(), found.targets[kept].tolist(), found.weights[kept].tolist()
    for source, target, weight in zip(*columns, strict=True):
        first, last = sorted((ids[source], ids[target]))
        if first != last:
            edges[first, last] = max(weight, edges.get((first, last), 0.0))
    ordered = sorted(edges.items(), key=lambda item: (-item[1], item[0]))
    return [{"source": first, "target": last, "weight": round(weight, 2)} for (first, last), weight in ordered]


def _strongest(edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the edges that are among the strongest of one of their ends, so that a dense graph stays readable."""
    seen: Counter[str] = Counter()
    kept = []
    for edge in edges:
        if min(seen[edge["source"]], seen[edge["target"]]) < _EDGES_PER_NODE:
            kept.append(edge)
            seen.update((edge["source"], edge["target"]))
    return kept


def _fields(snapshot: Snapshot, entities: Keys) -> list[dict[str, Any]]:
    """Return metadata fields with some of their values, from passages that mention the top entities."""
    if len(entities) == 0:
        return []
    chunks = np.unique(snapshot.neighbours(entities, to="chunks", limit=4).targets)
    values: dict[str, dict[str, None]] = {}
    for chunk in snapshot.chunks(chunks):
        for key, value in chunk.metadata.items():
            listed = value if isinstance(value, list) else [value]
            texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in listed if _is_short(one)]
            if texts and key != FACT_KEY and len(key) <= 40:
                values.setdefault(key, {}).update(dict.fromkeys(map(_safe, texts)))
    useful = [(key, list(found)) for key, found in values.items() if len(found) <= _FIELD_VALUES]
    return [{"field": _safe(key), "values": sorted(found)} for key, found in useful[:_FIELDS]]


def _is_short(value: object) -> bool:
    return isinstance(value, (bool, int, float, str)) and 0 < len(str(value)) <= 60


def _names_of(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of entities by id."""
    keys = snapshot.find_entities(ids)
    found = snapshot.entities(np.array(list(keys.values()), np.int64)) if keys else []
    return {key: _safe(entity.name, _NAME_LENGTH) for key, entity in zip(keys, found, strict=True)}


def find_entity(snapshot: Snapshot, name: str) -> tuple[Keys, Entity] | None:
    """Return the key and the value of the entity of a name; None if there is none."""
    keys = _keys(snapshot, [normalise(name)])
    return (keys, snapshot.entities(keys)[0]) if len(keys) else None


def _keys(snapshot: Snapshot, ids: Iterable[str]) -> Keys:
    """Return the keys of the entities of normalised names, each once and in order; unknown names are left out."""
    wanted = list(dict.fromkeys(ids))
    found = snapshot.find_entities(wanted)
    return np.array(list(dict.fromkeys(found[name] for name in wanted if name in found)), np.int64)


def _check_page(offset: int, limit: int) -> None:
    if offset < 0 or not 1 <= limit <= MAX_PAGE:
        raise InputError(f"offset {offset} and limit {limit}: the first must be 0 or more, the second 1 to {MAX_PAGE}")


def _safe(text: str, length: int = 2_000, *, lines: bool = False) -> str:
    """Return a text that is safe to display, cut if it is too long; in one line unless ``lines`` is true."""
    text = for_html(for_terminal(text[: 2 * length]))
    text = text if lines else " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"
