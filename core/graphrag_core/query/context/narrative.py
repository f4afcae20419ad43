"""What is known, told by subject, the user's own context first."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_core.model import Fact
from graphrag_core.query.context.budget import by_slot
from graphrag_core.query.context.item import Draft, Item, Material, Source, fact_source
from graphrag_core.query.context.safe import name, one_line

_USER = "user"


def narrative(material: Material) -> Draft:
    """Return facts grouped by subject: the user, then what the question names, then by relevance."""
    groups: dict[str, list[Fact]] = {}
    for fact in material.facts:
        if fact.entities:
            groups.setdefault(material.entity_id(fact.entities[0]), []).append(fact)
    named = [entity.id for entity in material.entities]
    order = sorted(groups, key=lambda subject: (not _is_user(material, subject), _place(named, subject)))
    items = [
        Item(
            (place,),
            _line(material, subject, fact),
            (*fact_source(fact), Source("entity", subject, material.name(subject))),
        )
        for place, subject in enumerate(order)
        for fact in groups[subject]
    ]
    headers = [_header(material, subject) for subject in order]

    def render(chosen: Sequence[Item]) -> str:
        """Return each subject's lines under its header."""
        sections = [(headers[slot[0]], [item.text for item in group]) for slot, group in by_slot(chosen).items()]
        return "\n\n".join("\n".join([header, *dict.fromkeys(lines)]) for header, lines in sections)

    return Draft(items, render)


def _is_user(material: Material, subject: str) -> bool:
    return material.name(subject).lower() == _USER


def _place(named: list[str], subject: str) -> int:
    return named.index(subject) if subject in named else len(named)


def _header(material: Material, subject: str) -> str:
    if _is_user(material, subject):
        return "### 👤 USER CONTEXT"
    return f"### 💡 CONTEXT: {one_line(material.name(subject))}"


def _line(material: Material, subject: str, fact: Fact) -> str:
    if not fact.relation:
        return f"- {one_line(fact.text)}"
    objects = [name(material.name(entity)) for entity in fact.entities[1:]] or [name(material.name(subject))]
    return f"- {one_line(fact.relation)}: {one_line(fact.value) if fact.value else ', '.join(objects)}"
