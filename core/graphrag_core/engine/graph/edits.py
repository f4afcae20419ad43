"""Edits of the graph: renamed, merged, described and deleted entities, and hidden relations.

The records stay as they are. The edits are a setting of the index, and are applied when the view is built, to the
rows of the moment: so they hold for documents that come later, and taking one back leaves no trace. Entities are
referred to by normalised names that documents write, which no other edit changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphrag_core.model import Entity
from graphrag_core.ports import Keys
from graphrag_core.text import hash64, normalise

FactReader = Callable[[Keys], Iterable[tuple[int, Sequence[int], str, str, str]]]
"""Returns key, names, relation, value and text of facts."""


class Shown(NamedTuple):
    """What is shown of an entity instead of what documents say; None for no change."""

    name: str | None = None
    type: str | None = None
    description: str | None = None

    def applied(self, entity: Entity) -> Entity:
        """Return an entity with these changes. A new name makes the old one an alias."""
        if self.name is not None and self.name != entity.name:
            aliases = tuple(sorted({entity.name, *entity.aliases} - {self.name}))
            entity = replace(entity, id=normalise(self.name), name=self.name, aliases=aliases)
        return replace(
            entity,
            type=entity.type if self.type is None else self.type,
            description=entity.description if self.description is None else self.description,
        )


class _Edited(Protocol):
    fact_keys: Keys

    def find(self, spellings: Sequence[int]) -> dict[int, int]: ...
    def joint_facts(self, entities: Keys) -> Keys: ...
    def of_names(self, names: Keys) -> Keys: ...


@dataclass(frozen=True)
class GraphEdits:
    """The edits of an index, oldest first, and a function that reads facts.

    ``text`` is the setting they are stored in: a list of :class:`~graphrag_core.Edit` as JSON.
    """

    text: str = ""
    read: FactReader | None = None

    @property
    def _edits(self) -> list[dict[str, Any]]:
        return json.loads(self.text)["edits"] if self.text else []

    def _of(self, *actions: str) -> list[dict[str, Any]]:
        return [edit["details"] for edit in self._edits if edit["action"] in actions]

    def groups(self) -> list[list[int]]:
        """Return the spellings that are one entity, by number: first the one that represents it.

        A new name is one with the old: documents may come to write it.
        """
        found = []
        for details in self._of("rename", "merge"):
            norms = [*details.get("into", ()), *details["of"]]
            norms += [normalise(details["name"])] if details.get("name") else []
            found.append([hash64(norm) for norm in dict.fromkeys(norms)])
        return found

    def deleted(self) -> list[int]:
        """Return the spellings of deleted entities, by number."""
        return [hash64(norm) for details in self._of("delete_entity") for norm in details["of"]]

    def shown(self) -> list[tuple[list[int], Shown]]:
        """Return what is shown of entities, given by some of their spellings; later ones count more."""
        found = []
        for details in self._of("rename", "merge", "describe", "add_entity"):
            spellings = [hash64(norm) for norm in (*details.get("into", ()), *details["of"])]
            found.append((spellings, Shown(details.get("name"), details.get("type"), details.get("description"))))
        return found

    def hidden(self, graph: _Edited) -> Keys:
        """Return the keys of the facts of deleted relations."""
        found: set[int] = set()
        for details in self._of("delete_relation"):
            numbers = [hash64(end) for end in details["ends"]]
            known = graph.find(numbers)
            if len(known) < len({*numbers}) or self.read is None:
                continue
            ends = [known[number] for number in numbers]
            candidates = graph.fact_keys[graph.joint_facts(np.array([ends[0], ends[-1]], np.int64))]
            for key, fact_names, relation, value, text in self.read(candidates):
                same = normalise(relation) == normalise(details["relation"])
                if details["relation"]:
                    first = graph.of_names(np.array(fact_names[:1], np.int64)).tolist()
                    same = same and first == ends[:1] and normalise(value) == normalise(details.get("value", ""))
                else:
                    same = same and _words(text) == _words(details["text"])
                if same:
                    found.add(key)
        return np.array(sorted(found), np.int64)


def _words(text: str) -> str:
    return " ".join(text.split()).casefold()


def edited(
    edits: GraphEdits, find: Callable[[Sequence[int]], Mapping[int, int]]
) -> tuple[dict[int, Shown], dict[int, int]]:
    """Return what is shown of edited entities, and the entities of names that no document writes, by hash.

    ``find`` returns the entities of spellings, given by hash; unknown ones are left out.
    """
    shown: dict[int, Shown] = {}
    new_names: dict[int, int] = {}
    for numbers, change in edits.shown() if edits.text else ():
        known = find(numbers)
        entity = next((known[number] for number in numbers if number in known), None)
        if entity is None:
            continue
        before = shown.get(entity, Shown())
        shown[entity] = Shown(*(old if new is None else new for old, new in zip(before, change, strict=True)))
        if change.name:
            new_names[hash64(normalise(change.name))] = entity
    return shown, new_names
