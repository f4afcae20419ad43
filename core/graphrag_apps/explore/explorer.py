"""``Explorer``: answers the requests of the explorer's page, each within a scope.

Every answer is read from one snapshot, holds a bounded number of items, and contains nothing from outside its
``where``. Texts are made safe to display. Ids are not changed: the page sends them back and never shows them.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_apps.ask import Answer, ask
from graphrag_apps.page.layout import layout
from graphrag_apps.page.network import Network, build_network
from graphrag_core import forks
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
from graphrag_core.ingest.remembered import FACT_KEY, changes_between, visible
from graphrag_core.model import Chunk, Community, Entity, Fact
from graphrag_core.ports import Keys
from graphrag_core.retriever import GraphRetriever
from graphrag_core.text import FUNCTION, normalise
from graphrag_core.text.markup import plain

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

MAX_PAGE = 100
"""The most neighbours, passages or facts in one answer."""

MAX_DRAWN = 300
"""The most entities that a page draws at once."""

_SUGGESTIONS = 12
_NEAR_NAMES = 3
_PASSAGES_SEARCHED = 30  # for names of similar spelling
_LEAST_SIMILAR = 0.6
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
_NEIGHBOURS = 24
_PASSAGES = 6
_FACTS = 12
_EXCERPT = 400  # characters
_WHOLE = 3_000
_TYPES = 24
_FIELDS = 8
_FIELD_VALUES = 20

# How an answer's texts are made safe, by the name of their field: ids are not changed, others are cut.
_IDS = frozenset("id key chunk_id source target value community".split())
_WITH_LINES = frozenset("text pieces tooltip label".split())
_LENGTHS = {"text": 20_000, "name": 160, "names": 160, "title": 160, "section": 160, "document": 160, "type": 40,
            "relation": 60, "tooltip": 600, "description": 1_000}  # fmt: skip
_FACT_LENGTH = 400
_ABOUT_READ = 20  # passages of an entity, those about it first, to find out whether it is a section
_MONTHS = "january february march april may june july august september october november december".split()
_DATE = rf"(?=.*\d)(?=.*[a-z])(?:{'|'.join(_MONTHS)}|\d{{1,4}}(?:st|nd|rd|th)?|[\s,])+"
_YEAR = re.compile(rf"(?:1\d|20)\d\d(?:s|[–-]\d{{2,4}})?|{_DATE}", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class _Scope:
    """Cached values of one scope, until the index changes; filled under ``lock``.

    ``colours`` has the communities of the start page by id, ``community_of`` the community of each entity by id.
    ``names`` has the spellings of all entities, each after a line break. Facts are those that are valid ``at`` a time.
    """

    at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    most_mentioned: list[Entity] = field(default_factory=list)
    communities: list[dict[str, Any]] = field(default_factory=list)
    colours: dict[str, int] = field(default_factory=dict)
    community_of: dict[str, str] = field(default_factory=dict)
    overview: dict[str, Any] = field(default_factory=dict)
    names: list[tuple[str, Entity]] | None = None

    def fill(self, snapshot: Snapshot, communities: Sequence[Community]) -> None:
        """Set the communities and the most mentioned entities."""
        self.colours = {community.id: colour for colour, community in enumerate(communities[:_COMMUNITIES])}
        self.communities = [_community(community, self.colours.get(community.id)) for community in communities]
        self.community_of = {member: community.id for community in communities for member in community.members}
        self.most_mentioned = snapshot.entities(snapshot.top_entities(_MOST_FIRST))


class Explorer:
    """Answers the requests of the explorer's page. Thread-safe.

    Parameters
    ----------
    retriever
        Answers questions; its index is explored.
    llm
        Writes answers: anything that :meth:`GraphRetriever.ask` takes. Without one the best sentences are shown.

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
        with self._open(where) as view:
            scope = view.scope
            if not scope.overview:
                keys = view.start_keys()
                types = Counter(entity.type for entity in scope.most_mentioned).most_common(_TYPES)
                scope.overview = _safe(
                    documents=len(self.index if where is None else self.index.document_ids(where)),
                    passages=view.snapshot.chunk_count,
                    entities=len(view.snapshot.top_entities(_MOST_COUNTED)),
                    types=[{"type": kind, "value": kind, "entities": count} for kind, count in types if kind],
                    fields=_fields(view.snapshot, keys),
                    communities=[community for community in scope.communities if community["id"] in scope.colours],
                    graph=view.graph(keys),
                )
            return scope.overview

    def search(self, text: str, where: Where | None = None, *, type: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Return the entities whose names match a text that is being typed, best first, at most twelve.

        Names that begin with the text come first, then names with a word that does, then names that contain it; the
        most mentioned first.
        """
        wanted = normalise(text)
        with self._open(where) as view:
            named = find_entity(view.snapshot, wanted)
            exact = [named[1]] if named is not None and type in (None, named[1].type) else []
            groups: tuple[list[Entity], ...] = (exact, [], [], [])
            for spellings, entity in view.names():
                if not wanted or wanted not in spellings or type not in (None, entity.type):
                    continue
                group = groups[1 if f"\n{wanted}" in spellings else 2 if f" {wanted}" in spellings else 3]
                if len(group) < _SUGGESTIONS:
                    group.append(entity)
            found = {entity.id: entity for group in groups for entity in group}
            return _safe(entities=view.nodes(list(found.values())[:_SUGGESTIONS]), exact=bool(exact))

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

    def near_names(self, name: str, where: Where | None = None) -> list[str]:
        """Return the names of entities that are most similar to a name in spelling."""
        with self._open(where) as view:
            return _near_names(view.snapshot, name)

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
        """Return a community and the graph of its top entities."""
        with self._open(where) as view:
            scope = view.scope
            known = {community["id"]: community for community in scope.communities}
            if id not in known:
                return {"community": None}
            listed = [entity.id for entity in scope.most_mentioned if scope.community_of.get(entity.id) == id]
            return _safe(
                community=known[id],
                graph=view.graph(_keys(view.snapshot, listed[:_COMMUNITY_NODES])),
            )

    def question(self, text: str, where: Where | None = None, *, answer: bool = True) -> dict[str, Any]:
        """Return the answer to a question, the passages with their reasons, and the graph of their paths.

        ``answer=False`` leaves the answer in words out, which a language model may take long to write.
        """
        answered = ask(self.retriever, text, self.llm, where=where) if answer else None
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
        parsed = None if where is None else parse(where)
        now, engine = time.time(), self.index.engine
        communities: list[Community] | None = None
        while True:
            with engine.snapshot(visible(engine, parsed, now)) as snapshot:
                scope = self._scope_of(snapshot.generation, parsed, now)
                with scope.lock:
                    if not scope.most_mentioned and communities is not None:
                        scope.fill(snapshot, communities)
                if scope.most_mentioned or communities is not None:
                    yield _View(snapshot, scope)
                    return
            # Outside the snapshot: this opens another one, which a writer may delay until the first is closed.
            communities = self.index.graph.communities(where=parsed)

    def _scope_of(self, generation: int, parsed: Filter | None, now: float) -> _Scope:
        key = generation, parsed
        with self._lock:
            scope = self._scopes.get(key)
            if scope is None or changes_between(self.index.engine, scope.at, now):
                scope = self._scopes[key] = _Scope(now)
            self._scopes.move_to_end(key)
            while len(self._scopes) > _KEPT_SCOPES:
                self._scopes.popitem(last=False)
        return scope


@dataclass(frozen=True, slots=True)
class _View:
    """An open snapshot of a scope: the parts of answers that are read from it."""

    snapshot: Snapshot
    scope: _Scope

    def names(self) -> list[tuple[str, Entity]]:
        """Return the spellings of all entities, which takes seconds for 100,000 the first time."""
        with self.scope.lock:
            if self.scope.names is None:
                keys = self.snapshot.top_entities(_MOST_LISTED)
                pages = (keys[start : start + _READ_AT_ONCE] for start in range(0, len(keys), _READ_AT_ONCE))
                entities = (entity for page in pages for entity in self.snapshot.entities(page))
                self.scope.names = [
                    ("\n" + "\n".join(dict.fromkeys([entity.id, *map(normalise, entity.aliases)])), entity)
                    for entity in entities
                ]
            return self.scope.names

    def start_keys(self) -> Keys:
        """Return the entities of the start page: the first of each community, then the most mentioned."""
        first: dict[str, list[str]] = {key: [] for key in self.scope.colours}
        mentioned = [entity.id for entity in self.scope.most_mentioned]
        for entity_id in mentioned:
            listed = first.get(self.scope.community_of.get(entity_id, ""))
            if listed is not None and len(listed) < _NAMES_EACH:
                listed.append(entity_id)
        ids = [entity_id for listed in first.values() for entity_id in listed]
        return _keys(self.snapshot, [*ids, *mentioned[: max(0, _START_NODES - len(ids))]])

    def nodes(self, entities: Sequence[Entity]) -> list[dict[str, Any]]:
        fields = ("id", "name", "type", "mentions")
        return [
            {
                **{name: getattr(entity, name) for name in fields},
                "kind": kind,
                "community": self.scope.community_of.get(entity.id),
            }
            for entity, kind in zip(entities, self.kinds(entities), strict=True)
        ]

    def kinds(self, entities: Sequence[Entity]) -> list[str]:
        """Return for each entity whether it is a thing, a section, a year or a number.

        A section is an entity that most of its passages are about, and that is their heading or reads as one.
        """
        kinds = [_kind_of_name(entity) for entity in entities]
        things = {normalise(entity.id): at for at, entity in enumerate(entities) if kinds[at] == "thing"}
        found = self.snapshot.find_entities(list(things))
        numbers = [things[name] for name in found]
        edges = self.snapshot.neighbours(np.array(list(found.values()), np.int64), to="chunks", limit=_ABOUT_READ)
        owners = np.repeat(np.arange(len(numbers)), edges.counts)[edges.weights > 1]
        about = edges.targets[edges.weights > 1]
        mostly = 2 * np.bincount(owners, minlength=len(numbers)) > [entities[at].mentions for at in numbers]
        firsts = dict(zip(owners[::-1].tolist(), about[::-1].tolist(), strict=True))
        read = {owner: chunk for owner, chunk in firsts.items() if mostly[owner]}
        chunks = self.snapshot.chunks(np.array(list(read.values()), np.int64))
        for owner, chunk in zip(read, chunks, strict=True):
            entity = entities[numbers[owner]]
            headings = set(map(normalise, chunk.headings)) - {normalise(chunk.title)}
            if entity.id in headings or _reads_as_heading(entity.name):
                kinds[numbers[owner]] = "section"
        return kinds

    def graph(self, keys: Keys) -> dict[str, Any]:
        """Return entities and the strongest edges between them."""
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


def _kind_of_name(entity: Entity) -> str:
    """Return what the name of an entity says of its kind."""
    if entity.id.startswith("→"):
        return "section"
    if _YEAR.fullmatch(entity.name):
        return "year"
    return "thing" if any(map(str.isalpha, entity.name)) else "number"


def _reads_as_heading(name: str) -> bool:
    """Return whether a name of several words has a word that a title would capitalise, in lower case.

    >>> [_reads_as_heading(name) for name in ("Gone with the Wind", "Maintenance note of 3 February", "keyring")]
    [False, True, False]
    """
    words = name.partition(" (")[0].split()
    return len(words) > 1 and any(word.islower() and word not in FUNCTION for word in words)


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


def _fields(snapshot: Snapshot, entities: Keys) -> list[dict[str, Any]]:
    """Return metadata fields with some of their values, from passages that mention the top entities."""
    if len(entities) == 0:
        return []
    chunks = np.unique(snapshot.neighbours(entities, to="chunks", limit=4).targets)
    values: dict[str, set[str]] = {}
    for chunk in snapshot.chunks(chunks):
        for key, value in chunk.metadata.items():
            texts = set(map(_filter_value, value if isinstance(value, list) else [value])) - {""}
            if texts:
                values.setdefault(key, set()).update(texts)
    useful = [
        {"field": key, "values": sorted(texts)}
        for key, texts in values.items()
        if key != FACT_KEY and len(key) <= 40 and len(texts) <= _FIELD_VALUES
    ]
    return useful[:_FIELDS]


def _filter_value(value: object) -> str:
    """Return a metadata value as it is written in a filter; empty if it is long or not a simple value."""
    text = str(value) if isinstance(value, (bool, int, float, str)) else ""
    return "" if len(text) > 60 else text.lower() if isinstance(value, bool) else text


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


def _near_names(snapshot: Snapshot, name: str) -> list[str]:
    """Return the names most similar in spelling, from passages that have a part of the name.

    A part with a spelling mistake is in no passage, so the most mentioned entities are looked at, too.
    """
    passages, _ = snapshot.keywords(name, _PASSAGES_SEARCHED)
    keys = np.union1d(snapshot.neighbours(passages, to="entities").targets, snapshot.top_entities(5_000))
    wanted = normalise(name)
    scored = []
    for entity in snapshot.entities(keys):
        if entity.id.startswith("→"):
            continue
        matcher = SequenceMatcher(None, wanted, entity.id, autojunk=False)
        bounds = matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio  # the cheapest upper bound first
        if all(ratio() >= _LEAST_SIMILAR for ratio in bounds):
            scored.append((-matcher.ratio(), -entity.mentions, entity.name))
    return [near for _, _, near in sorted(scored)[:_NEAR_NAMES]]


def _community(community: Community, colour: int | None) -> dict[str, Any]:
    return {
        "id": community.id,
        "name": _short(community.name, 80),
        "names": community.names,
        "entities": community.entities,
        "colour": colour,
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
    length = _LENGTHS.get(name, 2_000)
    text = for_html(for_terminal(value[: 2 * length]))
    if name not in _WITH_LINES:
        text = _short(text, length)
    elif len(text) > length:
        text = f"{text[: length - 1].rstrip()}…"
    return text or ("(unnamed)" if name == "name" else "")
