"""``index.graph``: look entities and facts up, find communities, and edit the graph."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_core.communities import find_communities
from graphrag_core.deadline import check_deadline
from graphrag_core.engine.shortest_path import shortest_path
from graphrag_core.engine.subgraph import subgraph
from graphrag_core.errors import ChangedMeanwhile, InputError, check_integer
from graphrag_core.filters import Where, parse_all
from graphrag_core.ingest import remembered
from graphrag_core.ingest.pipeline import Pipeline
from graphrag_core.ingest.validation import clean_name
from graphrag_core.memory import Memory
from graphrag_core.model import Community, Document, Edit, EditAction, Entity, Fact, GraphPath
from graphrag_core.ports import Keys
from graphrag_core.text import REFERS_TO, normalise

if TYPE_CHECKING:
    from igraph import Graph

    from graphrag_core.engine.snapshot import Snapshot

_ALL = 1 << 40  # more entities than there are
_ATTEMPTS = 10  # to change a setting that other processes change, too
_EDITS = "edits"  # the setting under which edits of the graph are stored; the engine applies them
_PAGE = 1_000


class KnowledgeGraph:
    """The entities and facts of an index: ``index.graph``.

    ``where`` of its methods is a filter: other documents are not seen, counted or linked.

    Examples
    --------
    >>> from graphrag_core import Document, KnowledgeIndex
    >>> index = KnowledgeIndex()
    >>> _ = index.add([Document("1", "Ada Lovelace wrote to Charles Babbage."),
    ...                Document("2", "Charles Babbage met Ludwig Moser.")])
    >>> [entity.name for entity, weight in index.graph.neighbours("Ada Lovelace")]
    ['Charles Babbage']
    >>> [entity.name for entity in index.graph.find_path("ada lovelace", "Ludwig Moser").entities]
    ['Ada Lovelace', 'Charles Babbage', 'Ludwig Moser']
    """

    def __init__(self, pipeline: Pipeline, memory: Memory) -> None:
        self._pipeline = pipeline
        self._engine = pipeline.engine
        self._memory = memory

    # -- entities and facts

    def entity(self, name: str, *, where: Where | None = None) -> Entity | None:
        """Return the entity of a name, in any spelling or case, or None."""
        with self._snapshot(where) as snapshot:
            keys = _entity_keys(snapshot, name)
            return snapshot.entities(keys)[0] if len(keys) else None

    def facts(self, name: str, *, where: Where | None = None) -> list[Fact]:
        """Return the facts that hold an entity, in order of id."""
        with self._snapshot(where) as snapshot:
            return sorted(snapshot.facts(snapshot.facts_of(_entity_keys(snapshot, name))), key=lambda fact: fact.id)

    def neighbours(self, name: str, *, where: Where | None = None) -> list[tuple[Entity, float]]:
        """Return the entities that share a fact with an entity, and the weights of the edges, strongest first."""
        with self._snapshot(where) as snapshot:
            keys = _entity_keys(snapshot, name)
            found = snapshot.neighbours(keys, to="entities")
            own = {entity.id for entity in snapshot.entities(keys)}  # a section and its subject are one entity
            strongest: dict[str, tuple[Entity, float]] = {}
            for entity, weight in zip(snapshot.entities(found.targets), found.weights.tolist(), strict=True):
                if entity.id not in own:
                    before = strongest.get(entity.id, (entity, 0.0))[1]
                    strongest[entity.id] = entity, max(round(weight, 6), before)
            return sorted(strongest.values(), key=lambda pair: (-pair[1], pair[0].id))

    def find_path(self, start: str, end: str, *, where: Where | None = None, max_hops: int = 4) -> GraphPath | None:
        """Return the shortest path between two entities, of at most ``max_hops`` facts; None if there is none.

        Of several paths with the same number of facts, the strongest: links to entities that many passages mention
        are weak. ``start`` and ``end`` are names in any spelling or case.
        """
        check_integer(max_hops, "max_hops")
        with self._snapshot(where) as snapshot:
            return shortest_path(snapshot, _entity_keys(snapshot, start), _entity_keys(snapshot, end), max_hops)

    def to_igraph(
        self,
        around: str | Iterable[str] | None = None,
        *,
        hops: int = 2,
        limit: int = 5_000,
        where: Where | None = None,
    ) -> Graph:
        """Return entities, passages and what links them as an ``igraph.Graph``, for its algorithms and pictures.

        Parameters
        ----------
        around
            Names of entities to begin at, in any spelling or case; None for the most mentioned ones of the index.
        hops
            How many facts to follow from these.
        limit
            The maximum number of edges, the strongest, of which at most half are between entities.

        Returns
        -------
        igraph.Graph
            Vertices have ``kind`` (``"entity"`` or ``"passage"``), ``key`` and ``name``, the id of a passage. Edges
            have ``weight``, ``relation`` and ``fact``, the id of a fact; from a passage the relation is
            ``"mentions"`` or ``"about"``.

        Raises
        ------
        InputError
            There is no entity of one of the names.

        Examples
        --------
        >>> from graphrag_core import KnowledgeIndex
        >>> index = KnowledgeIndex()
        >>> _ = index.memory.remember("Harbour Team", "owns", "Keyring")
        >>> graph = index.graph.to_igraph("Keyring")
        >>> [(edge["relation"], edge["weight"]) for edge in graph.es if edge["fact"]]
        [('owns', 10.0)]
        """
        check_integer(hops, "hops")
        check_integer(limit, "limit")
        with self._snapshot(where) as snapshot:
            if around is None:
                starts = snapshot.top_entities(limit)
            else:
                keys = {
                    name: _entity_keys(snapshot, name) for name in ([around] if isinstance(around, str) else around)
                }
                if unknown := [name for name in keys if not len(keys[name])]:
                    raise InputError(f"there is no entity {unknown[0]!r}: see entities()")
                starts = np.concatenate([np.empty(0, np.int64), *keys.values()])
            return subgraph(snapshot, starts, hops, limit)

    def entities(
        self,
        prefix: str = "",
        *,
        type: str | None = None,  # noqa: A002 - the usual word
        contains: str = "",
        limit: int | None = 100,
        where: Where | None = None,
    ) -> list[Entity]:
        """Return entities, the most mentioned first.

        Parameters
        ----------
        prefix, contains
            What a name or alias begins with, and what it contains, in any case.
        type
            Only entities of this type, in any case.
        limit
            The maximum number of entities; None for all.
        """
        return list(islice(self.iter_entities(prefix, type=type, contains=contains, where=where), limit))

    def iter_entities(
        self,
        prefix: str = "",
        *,
        type: str | None = None,  # noqa: A002
        contains: str = "",
        where: Where | None = None,
    ) -> Generator[Entity, None, None]:
        """Yield entities as :meth:`entities` returns them, a page at a time, all from one state of the index."""
        start, inside = normalise(prefix), normalise(contains)
        wanted = None if type is None else type.casefold()
        with self._snapshot(where) as snapshot:
            keys = snapshot.search_names(start, inside) if start or inside else snapshot.top_entities(_ALL)
            for page in _pages(keys):
                for entity in snapshot.entities(page):
                    if wanted in (None, entity.type.casefold()) and _has_name(entity, start, inside):
                        yield entity

    def relations(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,  # noqa: A002 - the usual word
        *,
        contains: str = "",
        limit: int | None = 100,
        where: Where | None = None,
    ) -> list[Fact]:
        """Return the facts that are triples (subject, relation, object), by how often their entities are mentioned.

        Links between sections are returned only if ``relation`` is ``"refers_to"``.

        Parameters
        ----------
        subject, relation, object, contains
            Only facts with these names, in any spelling or case, and with this text, in any case.
        limit
            The maximum number of facts; None for all.
        """
        text = contains.casefold()
        others = {""} if normalise(relation or "") == normalise(REFERS_TO) else {"", REFERS_TO}
        found = self.iter_facts(subject, relation, object, where=where)
        triples = (fact for fact in found if fact.relation not in others and text in fact.text.casefold())
        return list(islice(triples, limit))

    def iter_facts(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,  # noqa: A002
        *,
        where: Where | None = None,
    ) -> Generator[Fact, None, None]:
        """Yield facts, each once, a page at a time, all from one state of the index.

        Parameters as for :meth:`relations`. Without them, sentences and links between sections are yielded too.
        """
        wanted, seen = normalise(relation or ""), set[int]()
        with self._snapshot(where) as snapshot:
            is_subject, is_object = _name_test(snapshot, subject), _name_test(snapshot, object)
            name = object if subject is None else subject
            for page in _pages(snapshot.top_entities(_ALL) if name is None else _entity_keys(snapshot, name)):
                keys = [key for key in snapshot.facts_of(page).tolist() if key not in seen]
                seen.update(keys)
                for fact in snapshot.facts(np.array(keys, np.int64)):
                    source, target = _ends(fact)
                    if wanted in ("", normalise(fact.relation)) and is_subject(source) and is_object(target):
                        yield fact

    def communities(self, *, where: Where | None = None) -> list[Community]:
        """Return the communities of entities, the themes of the collection: the largest first.

        They are computed on each call, by the Leiden algorithm: about five seconds for 23,000 entities. A community has
        at least three entities; the 200,000 most mentioned entities are looked at.

        Examples
        --------
        >>> from graphrag_core import Document, KnowledgeIndex
        >>> index = KnowledgeIndex()
        >>> _ = index.add([Document("1", "Ada Lovelace wrote to Charles Babbage and Ludwig Moser.")])
        >>> [sorted(community.names) for community in index.graph.communities()]
        [['Ada Lovelace', 'Charles Babbage', 'Ludwig Moser']]
        """
        with self._snapshot(where) as snapshot:
            return find_communities(snapshot)

    # -- edits

    def edits(self) -> list[Edit]:
        """Return the edits of the graph that are in force, oldest first."""
        stored = self._engine.settings().get(_EDITS)
        return [Edit(**edit) for edit in json.loads(stored)["edits"]] if stored else []

    def undo(self, number: int) -> Edit:
        """Take back an edit, whatever came after it; return it. Raises ``InputError`` if no edit has this number."""
        with self._pipeline.writing():
            edits = self.edits()
            edit = next((edit for edit in edits if edit.number == number), None)
            if edit is None:
                known = ", ".join(str(edit.number) for edit in edits) or "none"
                raise InputError(f"there is no edit {number}: the edits are {known}")
            for document_id, before in edit.details.get("documents", {}).items():
                if before is not None:
                    self._pipeline.add([Document(document_id, before["text"], before["title"], before["metadata"])])
                else:
                    self._pipeline.delete([document_id])
            self._change_edits(lambda edits, _: [edit for edit in edits if edit.number != number])
            return edit

    def rename(self, name: str, new_name: str) -> Edit:
        """Give an entity another name. Questions with the old one find it too, and so do documents added later.

        Raises ``InputError`` if there is no such entity, or if another one has the new name: merge the two.
        """
        with self._pipeline.writing():
            (old, spellings), new_name = self._known(name), _name(new_name)
            other = self.entity(new_name)
            if other is not None and other.id != old.id:
                raise InputError(f"there is an entity {other.name!r}: use merge([{name!r}], {new_name!r})")
            return self._edit("rename", f"renamed {old.name!r} to {new_name!r}", of=spellings[:1], name=new_name)

    def merge(self, names: str | Iterable[str], into: str) -> Edit:
        """Treat several entities as one, with the name ``into``, which may be new. Their names become its aliases.

        Raises ``InputError`` if a name is unknown, or if the names are one entity already.
        """
        with self._pipeline.writing():
            into = _name(into)
            target = self.entity(into)
            known = [self._known(name) for name in ([names] if isinstance(names, str) else names)]
            merged = {entity: spellings for entity, spellings in known if target is None or entity.id != target.id}
            if len(merged) + (target is not None) < 2:
                raise InputError(f"there is nothing to merge into {into!r}: name at least two different entities")
            of = [spellings[0] for spellings in merged.values()]
            text = f"merged {', '.join(repr(entity.name) for entity in merged)} into {into!r}"
            kept = self._spellings(into)[:1] if target is not None else []
            return self._edit("merge", text, of=of, into=kept, name=target.name if target else into)

    def delete_entity(self, name: str) -> Edit:
        """Take an entity out of the graph with its links, also for documents added later. Documents do not change.

        Raises ``InputError`` if there is no such entity.
        """
        with self._pipeline.writing():
            entity, spellings = self._known(name)
            return self._edit("delete_entity", f"deleted {entity.name!r}", of=spellings)

    def delete_relation(self, fact: str | Fact | tuple[str, str, str]) -> Edit:
        """Take a relation out of the graph, wherever documents state it, also in those added later.

        Parameters
        ----------
        fact
            A fact as :meth:`relations`, :meth:`facts` and queries return it, its id, or the triple (subject, relation,
            object). A sentence is taken out wherever it is word by word the same. ``InputError`` if there is none.
        """
        with self._pipeline.writing():
            if isinstance(fact, tuple):
                found = next(iter(self.relations(*fact, limit=1)), None)
            elif isinstance(fact, str):
                found = next((known for known in self.iter_facts() if known.id == fact), None)
            else:
                found = fact
            if found is None:
                kind = "relation" if isinstance(fact, tuple) else "fact"
                raise InputError(f"there is no {kind} {fact!r}: see relations(), facts() or the result of a query")
            fact = found
            ends = [spellings[0] for end in fact.entities[:2] if (spellings := self._spellings(end))]
            if not ends:
                raise InputError(f"the fact {fact.text!r:.80} holds no entity: edit the document that states it")
            ends = ends if fact.relation else ends[:1]
            details = {"ends": ends, "relation": fact.relation, "value": fact.value, "text": fact.text}
            return self._edit("delete_relation", f"deleted the relation {fact.text!r:.200}", **details)

    def add_relation(self, subject: str, relation: str, object: str, **options: Any) -> Edit:  # noqa: A002 - the usual word
        """Add a relation between two entities, which need not exist: a remembered fact, as an edit that can be undone.

        ``options`` as for :meth:`Memory.remember <graphrag_core.memory.Memory.remember>`.
        """
        with self._pipeline.writing():
            before = {document.id: document for document in self._memory.documents()}
            fact = self._memory.remember(subject, relation, object, **options)
            after = {document.id: document for document in self._memory.documents()}
            changed = [key for key, document in after.items() if before.get(key) != document]
            documents = {
                key: None if (old := before.get(key)) is None
                else {"text": old.text, "title": old.title, "metadata": dict(old.metadata)}
                for key in changed
            }  # fmt: skip
            return self._edit("add_relation", f"added {fact.text!r:.200}", documents=documents)

    def _edit(self, action: EditAction, text: str, /, **details: Any) -> Edit:
        moment = time.time()
        return self._change_edits(lambda edits, number: [*edits, Edit(number, moment, action, text, details)])[-1]

    def _change_edits(self, change: Callable[[list[Edit], int], list[Edit]]) -> list[Edit]:
        """Store what a function makes of the edits and the next number; once more if another process was faster."""
        for attempt in range(1, _ATTEMPTS + 1):
            stored = self._engine.settings().get(_EDITS, "")
            known: dict[str, Any] = json.loads(stored) if stored else {"next": 1, "edits": []}
            edits = change([Edit(**edit) for edit in known["edits"]], known["next"])
            known["next"] = max(known["next"], *(edit.number + 1 for edit in edits), 1)
            known["edits"] = [asdict(edit) for edit in edits]
            try:
                self._engine.write(settings={_EDITS: json.dumps(known, ensure_ascii=False)}, expected={_EDITS: stored})
                break
            except ChangedMeanwhile:
                if attempt == _ATTEMPTS:
                    raise
        self._engine.flush()
        return edits

    def _known(self, name: str) -> tuple[Entity, list[str]]:
        """Return an entity and its spellings."""
        entity = self.entity(name)
        if entity is None:
            raise InputError(f"there is no entity {name!r}: list them with entities()")
        return entity, self._spellings(name)

    def _spellings(self, name: str) -> list[str]:
        """Return the names of an entity as documents write them, normalised, the one that represents it first."""
        with self._engine.snapshot() as snapshot:
            found = snapshot.find_entities([normalise(name)])
            return snapshot.spellings(next(iter(found.values()))) if found else []

    def _snapshot(self, where: Where | None = None) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of what is valid now, within a filter."""
        return self._engine.snapshot(remembered.visible(self._engine, parse_all(where), time.time()))


def _name(name: str) -> str:
    """Return the name that a person gave an entity."""
    cleaned = clean_name(name) if isinstance(name, str) else ""
    if not cleaned or cleaned.startswith("→"):
        raise InputError(f"{name!r:.80} is not a name of an entity: it needs a letter or digit")
    return cleaned


def _has_name(entity: Entity, start: str, inside: str) -> bool:
    """Return whether a name of an entity starts with a text and contains another; normalised, as the names are."""
    if not start and not inside:
        return True
    names = (entity.id, *map(normalise, entity.aliases))
    return any(name.startswith(start) and inside in name for name in names)


def _ends(fact: Fact) -> tuple[str, str]:
    """Return the subject and the object of a fact."""
    subject, *others = fact.entities or ("",)
    return subject, others[0] if others else normalise(fact.value)


def _pages(keys: Keys) -> Iterator[Keys]:
    for start in range(0, len(keys), _PAGE):
        check_deadline()
        yield keys[start : start + _PAGE]


def _name_test(snapshot: Snapshot, wanted: str | None) -> Callable[[str], bool]:
    """Return a test whether a name in a fact is a name of the wanted entity; every name passes for None."""
    if wanted is None:
        return lambda _: True
    ids = {entity.id for entity in snapshot.entities(_entity_keys(snapshot, wanted))}

    def is_wanted(name: str) -> bool:
        return name in ids or any(entity.id in ids for entity in snapshot.entities(_entity_keys(snapshot, name)))

    return is_wanted


def _entity_keys(snapshot: Snapshot, name: str) -> Keys:
    """Return the key of a name's entity; none if it is unknown."""
    return np.array(list(snapshot.find_entities([normalise(name)]).values()), np.int64)
