"""``Snapshot``: what a question reads of an index: numbers, and entities and facts as values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from graphrag_core.engine.counters import kept_rows
from graphrag_core.engine.edits import SUBJECT_WEIGHT
from graphrag_core.engine.reads import Reads
from graphrag_core.engine.rows import Name
from graphrag_core.key_sets import distinct
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Keys, Matrix, Ranking
from graphrag_core.text import EDGE, REFERS_TO, hash64, label, normalise
from graphrag_core.text.markup import plain

_HASH = re.compile(r"~[0-9a-f]{8}$")  # of a value in an address
_MOST_ROWS = 10_000  # entities of a scope that are kept
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity
_MAX_DESCRIPTIONS = 8  # of one entity
_OPENING, _OPENING_WORDS = 200, 8  # characters and words of a text that stand for a title


class Snapshot(Reads):
    """One generation of an index, restricted to a scope. All reads of a question go through it.

    Passages and entities are the nodes of the graph. An edge from a passage to an entity weighs 1 for a mention and 5
    more if the entity is the passage's subject. An edge between two entities weighs the sum of ``weight / 10`` over the
    facts that hold both. Passages, facts, mentions and counts outside the scope do not exist for a snapshot.
    """

    def _names_of(self, entities: Keys) -> list[dict[int, Name]]:
        """Return the names of each entity that documents write, by key and in the order of keys."""
        counts, names = self.graph.names(entities)
        keys = self.view.columns["name"].take(names).tolist()
        known = self.records.names(keys)
        ends = zip(counts.cumsum().tolist(), counts.tolist(), strict=True)
        return [{key: known[key] for key in keys[end - count : end]} for end, count in ends]

    def _entities_of_names(self, names: Keys) -> Keys:
        """Return the entities of names, given by key; -1 for a name without one in scope."""
        known = self.records.names(names.tolist())
        ids = [known[name].name_id for name in names.tolist()]
        found = self.graph.find([*dict.fromkeys(ids)]) if ids else {}
        return np.array([self.most_mentioned(found[number]) if number in found else -1 for number in ids], np.int64)

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""
        (names,) = self._names_of(np.array([entity]))
        entity_id = self.graph.ids(np.array([entity]))[0]
        norms = sorted({name.norm for name in names.values()}, key=lambda norm: (hash64(norm) != entity_id, norm))
        return [norm for norm in norms if norm[:1] != "→"]

    def search_names(self, start: str, inside: str) -> Keys:
        """Return the entities of which a normalised name begins with one text and contains another.

        Most mentioned first, without numbers and addresses. It may return more: callers check them.
        """
        graph = self.graph
        entities = self._entities_of_names(self.records.names_like(start, inside))
        entities = distinct(entities[entities >= 0], np.array([*graph.new_names[0]], np.int64))
        entities = entities[~graph.are_addresses(entities)]
        order = np.lexsort((graph.ids(entities), -graph.entity_counts(entities)))
        return self.without_numbers(entities[order])

    # -- entities

    def nearest_entities(self, vector: Matrix, k: int) -> Ranking:
        """Return the ``k`` entities with the nearest names."""
        wanted = k * _NAMES_PER_ENTITY
        names, scores = self.name_vectors.nearest(self.records, vector, wanted, lambda own: self.graph.uses(own) > 0)
        entities = self._entities_of_names(names)
        entities, scores = entities[entities >= 0], scores[entities >= 0]
        things = ~self.graph.are_addresses(entities)
        entities, scores = entities[things], scores[things]
        order = np.lexsort((self.graph.ids(entities), -scores))
        _, first = np.unique(entities[order], return_index=True)
        order = order[np.sort(first)][:k]
        return entities[order], scores[order]

    def entities(self, keys: Keys) -> list[Entity]:
        """Return entities in the order given, described by the passages in scope alone."""
        known, wanted = self.scope.entities, keys.tolist()
        if missing := [key for key in dict.fromkeys(wanted) if key not in known]:
            if len(known) + len(missing) > _MOST_ROWS:  # another thread may read the old ones meanwhile
                self.scope.entities = known = {key: known[key] for key in wanted if key in known}
            known.update(zip(missing, self._described_all(np.array(missing, np.int64)), strict=True))
        return [known[key] for key in wanted]

    def entities_with(self, ids: Sequence[int]) -> list[Entity]:
        """Return the entities of some ids that still exist."""
        found = self.graph.find(ids)
        return self.entities(np.array([found[one][0] for one in ids if one in found], np.int64))

    def _described_all(self, keys: Keys) -> list[Entity]:
        """Return entities as documents describe them, addresses as the sections that they lead to."""
        graph, groups = self.graph, self._names_of(keys)
        every = [key for names in groups for key in names]
        if len(every) > len(groups):  # the most used name of each comes first
            uses = dict(zip(every, graph.uses(np.array(every, np.int64)).tolist(), strict=True))
            groups = [
                dict(sorted(names.items(), key=lambda pair: (-uses[pair[0]], pair[1].surface))) for names in groups
            ]
        # The types and descriptions that passages in scope give to names.
        rows = self.records.claims(every)
        passages = self.view.columns["passage"].find(np.array([row[0] for row in rows], np.int64))
        seen, claims = self.scope.visible, dict[int, list[tuple[str, str]]]()
        for (_, name, kind, description), passage in zip(rows, passages.tolist(), strict=True):
            if passage >= 0 and (seen is None or seen[passage]):
                claims.setdefault(name, []).append((kind, description))
        addresses = graph.are_addresses(keys)
        labels = self._section_labels(keys[addresses]) if addresses.any() else {}
        things = self._things(labels) if labels else {}
        ids, mentions = graph.ids(keys).tolist(), graph.entity_counts(keys).tolist()
        entities = []
        for key, entity_id, names, count in zip(keys.tolist(), ids, groups, mentions, strict=True):
            if (title := labels.get(key)) is not None:
                entities.append(things.get(title) or Entity(normalise(title) or title, title, mentions=count))
            else:
                stated = [claim for name in names for claim in claims.get(name, ())]
                one, new = _described(entity_id, [*names.values()], stated, count), graph.new_names[0].get(key)
                if new is not None and new != one.name:  # an edit renamed it
                    aliases = tuple(sorted({one.name, *one.aliases} - {new}))
                    one = replace(one, id=normalise(new), name=new, aliases=aliases)
                entities.append(one)
        return entities

    # -- sections

    def _section_labels(self, addresses: Keys) -> dict[int, str]:
        """Return the labels of the sections that addresses lead to."""
        counts, passages, weights = self.walk(addresses)
        counts, passages = kept_rows(counts, weights == SUBJECT_WEIGHT), passages[weights == SUBJECT_WEIGHT]
        addresses, counts = addresses[counts > 0], counts[counts > 0]
        # The first in the order of ids, whatever the order in which documents were added.
        order = np.lexsort((self.order(passages), np.repeat(np.arange(len(addresses)), counts)))
        ends = np.cumsum(counts)
        first = self.chunks(passages[order[ends - counts]])
        titles = (label(chunk.title, chunk.headings) or chunk.document_id for chunk in first)
        labels = dict(zip(addresses.tolist(), titles, strict=True))
        if self.graph.has_edges:
            last = self.chunks(passages[order[ends - 1]])
            for entity, names, chunk, other in zip(labels, self._names_of(addresses), first, last, strict=True):
                if (surface := next(iter(names.values())).surface).startswith(EDGE):
                    labels[entity] = _edge_label(surface, chunk, other)
        return labels

    def _things(self, labels: Mapping[int, str]) -> dict[str, Entity]:
        """Return the entities that sections are about, by the label of the section."""
        norms = {called: normalise(called) for called in labels.values()}
        known = self.find_entities(set(norms.values()))
        named = [called for called, norm in norms.items() if norm in known]
        found = self.entities(np.array([known[norms[called]] for called in named], np.int64)) if named else []
        return dict(zip(named, found, strict=True))

    # -- facts

    def facts(self, facts: Keys) -> list[Fact]:
        """Return facts in the order given, with entity ids in place of names."""
        if len(facts) == 0:
            return []
        rows, known = self._rows_of(facts)
        meant = self._meant(facts, [names for names, _ in rows], known)
        ends_of = self._ends_of({pair for pairs in meant for pair in pairs}, known)
        found = []
        for (names, fact), pairs in zip(rows, meant, strict=True):
            ends, text = [ends_of[pair] for pair in pairs], fact.text
            is_edge = fact.relation not in ("", REFERS_TO) and known[names[-1]].surface == EDGE and len(ends) > 1
            if is_edge:
                text = _edge_text(fact.relation, list(dict.fromkeys(name for _, name in ends)))
            entities = [entity_id for entity_id, _ in ends]
            if is_edge or fact.relation in ("", REFERS_TO):
                entities = list(dict.fromkeys(entities))
            found.append(replace(fact, entities=tuple(entities), text=text))
        return found

    def named_facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        """Return the ids of the names that facts hold, and the facts."""
        rows, known = self._rows_of(facts)
        return [([known[name].name_id for name in names], fact) for names, fact in rows]

    def _rows_of(self, facts: Keys) -> tuple[list[tuple[list[int], Fact]], dict[int, Name]]:
        """Return the keys of the names that facts hold with the facts, and these names. Later accesses are added."""
        keys, pending = self.fact_keys(facts).tolist(), self.accesses.pending
        rows = self.records.facts(keys)
        for at, key in enumerate(keys):
            if key in pending:
                (names, fact), (count, last) = rows[at], pending[key]
                rows[at] = names, replace(fact, last_accessed=last, access_count=fact.access_count + count)
        return rows, self.records.names(sorted({name for names, _ in rows for name in names}))

    def _meant(
        self, facts: Keys, names: Sequence[Sequence[int]], known: Mapping[int, Name]
    ) -> list[list[tuple[int, int]]]:
        """Return the names of facts with their entities. Names without an entity are left out.

        A name that is an alias in some documents has several. The one that the fact holds is meant.
        """
        found = self.graph.find(sorted({name.name_id for name in known.values()}))
        entities = {key: found[name.name_id] for key, name in known.items() if name.name_id in found}
        counts, every = self.graph.entities_of(facts)
        held = np.split(every, counts.cumsum()[:-1])
        return [
            [
                (name, next((entity for entity in entities[name] if entity in inside), entities[name][0]))
                for name in keys
                if name in entities
            ]
            for keys, inside in zip(names, held, strict=True)
        ]

    def _ends_of(
        self, pairs: AbstractSet[tuple[int, int]], names: Mapping[int, Name]
    ) -> dict[tuple[int, int], tuple[str, str]]:
        """Return the id and the name of entities, given with the name that a fact has for each.

        Edits, aliases and the labels of sections are taken into account.
        """
        graph, entities = self.graph, distinct(np.array([entity for _, entity in pairs], np.int64))
        addresses = graph.are_addresses(entities)
        labels = self._section_labels(entities[addresses]) if addresses.any() else {}
        ids = dict(zip(entities.tolist(), graph.ids(entities).tolist(), strict=True))
        ends = {}
        for key, entity in pairs:
            name, other = names[key], labels.get(entity) or graph.new_names[0].get(entity)
            if not other and ids[entity] != name.name_id:  # an alias, or merged
                other = self.entities(np.array([entity]))[0].name
            ends[key, entity] = (normalise(other) or other, other) if other else (name.norm, name.surface)
        return ends


def _described(entity_id: int, names: Sequence[Name], claims: Sequence[tuple[str, str]], mentions: int) -> Entity:
    """Return an entity from its names, the most used first, and from the types and descriptions that passages state."""
    own = next((name for name in names if len(names) == 1 or name.name_id == entity_id), None)
    if own is None:
        raise LookupError(f"no name has the id {entity_id} of its entity")
    types = Counter(kind for kind, _ in claims if kind)
    descriptions = sorted({description for _, description in claims if description})
    return Entity(
        id=own.norm,
        name=own.surface,
        type=min((-count, kind) for kind, count in types.items())[1] if types else "",
        description=" ".join(descriptions[:_MAX_DESCRIPTIONS]),
        aliases=tuple(sorted({name.surface for name in names} - {own.surface})),
        mentions=mentions,
    )


def _edge_label(surface: str, first: Chunk, last: Chunk) -> str:
    """Return the name of the address of an explicit edge, given the first and the last passage that has it.

    The title of the document, or the start of its text; the value if several documents have it.
    """
    field, _, value = surface.removeprefix(EDGE).partition("=")
    is_id = field.startswith(("$", "__"))  # of the document, or of the document from which a node was cut
    if not is_id and first.document_id != last.document_id:
        return _HASH.sub("", value)
    words = plain(first.text).split()
    opening = " ".join(words[:_OPENING_WORDS]) + ("…" if len(words) > _OPENING_WORDS else "")
    return first.title or opening[:_OPENING].rstrip(".")


def _edge_text(relation: str, names: Sequence[str]) -> str:
    """Return the text of an explicit edge between what it starts from, the first name, and the others."""
    others = [name.removeprefix(f"{relation}: ") for name in names[1:] or names]
    return f"{names[0]} {relation}: {', '.join(others)}"
