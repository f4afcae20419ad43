"""The "Knowledge Graph Context" block: entities, what they are related to, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from graphrag_core.model import Entity, Fact
from graphrag_core.query.context.budget import by_slot
from graphrag_core.query.context.item import Draft, Item, Material, Source, fact_source
from graphrag_core.query.context.relations import inverse
from graphrag_core.query.context.safe import name, one_line, shortened

_WIDTH = 88
_MOST_RELATED = 12
_LONGEST_DESCRIPTION = 400
_HEAD, _ENTITY, _RELATIONSHIPS = 0, 1, 2
_HEADING, _RELATED, _DESCRIPTION = 0, 1, 2


def block(material: Material) -> Draft:
    """Return the block: what the question names first, then relations and relationships by turns."""
    entities = material.entities or _spoken_of(material)
    named = ", ".join(name(entity.name) for entity in material.entities)
    head = Item((_HEAD,), f"## Knowledge Graph Context\nQuery entities: [{named}]", required=True)
    headings = [
        Item((_ENTITY, i, _HEADING), f"### {_titled(entity)}", (Source("entity", entity.id, entity.name),))
        for i, entity in enumerate(entities)
    ]
    descriptions = [
        Item((_ENTITY, i, _DESCRIPTION), f"Description: {shortened(entity.description, _LONGEST_DESCRIPTION)}")
        for i, entity in enumerate(entities)
        if entity.description
    ]
    related = [list(_related(material, entity, i)) for i, entity in enumerate(entities)]
    turns = zip_longest(_relationships(material), chain.from_iterable(zip_longest(*related)))
    items = [item for turn in turns for item in turn if item is not None]
    return Draft([head, *headings, *descriptions, *items], _render)


def _render(items: Sequence[Item]) -> str:
    sections: list[str] = []
    for slot, group in by_slot(items).items():
        texts = [item.text for item in group]
        if slot[0] == _RELATIONSHIPS:
            sections.append("\n".join(["### Relevant Relationships", *texts]))
        elif slot[-1] == _RELATED and slot[0] == _ENTITY:
            sections[-1] += "\n" + _wrapped("Related: ", texts)
        elif slot[-1] == _DESCRIPTION and slot[0] == _ENTITY:
            sections[-1] += "\n" + texts[0]
        else:
            sections.extend(texts)
    return "\n\n".join(sections)


def _wrapped(head: str, items: Sequence[str]) -> str:
    """Return items in lines, none of them broken."""
    lines = [head + items[0]]
    for item in items[1:]:
        if len(lines[-1]) + len(item) + 2 <= _WIDTH:
            lines[-1] += f", {item}"
        else:
            lines[-1] += ","
            lines.append(f"  {item}")
    return "\n".join(lines)


def _titled(entity: Entity) -> str:
    name = one_line(entity.name)
    return f"{name} ({one_line(entity.type)})" if entity.type else name


def _spoken_of(material: Material) -> list[Entity]:
    """Return the entities that the first facts speak of, for a question that names none."""
    ids = dict.fromkeys(material.entity_id(entity) for fact in material.facts[:5] for entity in fact.entities[:2])
    return [material.known[entity] for entity in ids if entity in material.known][:5]


def _related(material: Material, entity: Entity, number: int) -> Iterator[Item]:
    """Yield the entities that share a fact with one, with the relation as seen from there and the weight."""
    seen: dict[tuple[str, str], float] = {}
    for fact in material.facts:
        ends = [material.entity_id(end) for end in fact.entities]
        if entity.id not in ends:
            continue
        relation = fact.relation if ends[0] == entity.id or not fact.relation else inverse(fact.relation)
        for other in dict.fromkeys(ends):
            if other != entity.id:
                seen[other, relation] = min(seen.get((other, relation), 0.0) + fact.weight, 10.0)
    strongest = sorted(seen.items(), key=lambda pair: (not pair[0][1], -pair[1], pair[0]))
    told = {other for (other, relation), _ in strongest if relation}
    for (other, relation), weight in strongest[:_MOST_RELATED]:
        if relation or other not in told:  # a sentence adds nothing to a relation
            how = f"{one_line(relation)}, weight: {weight:g}" if relation else f"weight: {weight:g}"
            called = material.name(other)
            yield Item((_ENTITY, number, _RELATED), f"{name(called)} ({how})", (Source("entity", other, called),))


def _relationships(material: Material) -> Iterator[Item]:
    for fact in material.facts:
        ends = list(dict.fromkeys(name(material.name(entity)) for entity in fact.entities))
        if len(ends) < 2 and not fact.value:
            continue
        objects = ", ".join([*ends[1:4], *([one_line(fact.value)] if fact.value else [])])
        yield Item(
            (_RELATIONSHIPS,),
            f"- {ends[0]} -> {objects}: {_told(fact, ends)} (strength: {fact.weight:g})",
            fact_source(fact),
        )


def _told(fact: Fact, ends: Sequence[str]) -> str:
    text = one_line(fact.text)
    if not fact.relation:
        return text
    relation = one_line(fact.relation)
    plain = {
        " ".join([ends[0], word, *ends[1:], fact.value]).casefold().strip()
        for word in (relation, relation.replace("_", " "))
    }
    return f'"{relation}"' if text.casefold() in plain else f'"{relation}" -- {text}'
