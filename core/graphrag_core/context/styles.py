"""The context styles. Each turns a result into items, most useful first, and a function that renders them.

``graph_block`` writes entities, facts and the passages, in the published format as the block "Knowledge Graph Context"
and the passages. ``passages`` writes the passages with scores and sources, ``narrative`` the facts grouped by subject.
Names and text from documents are escaped here, so that they cannot pass for the structure of the context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from typing import Literal

from graphrag_core.context.display import Highlighter, body_text, citation, fact_words
from graphrag_core.context.escape import body, list_item, one_line, shortened
from graphrag_core.context.relations import inverse
from graphrag_core.context.retrieved import Hit, Retrieved
from graphrag_core.model import Entity, Fact
from graphrag_core.text import sentences

_LINE_WIDTH = 88
_MAX_RELATED = 12
_MAX_DESCRIPTION = 400
_WORD = re.compile(r"\S{1,16}")
_EXCERPTS = (300, 600, 1_200, 2_400)
"""Lengths in characters to which a passage is shortened if there is no room for all of it."""


@dataclass(frozen=True)
class ContextSource:
    """A chunk, entity or fact that a context contains, so that an answer can cite it."""

    kind: Literal["chunk", "entity", "fact"]
    id: str
    name: str = ""


@dataclass(frozen=True)
class Item:
    """A piece of a context that is included whole or not at all.

    ``slot`` is its position in the text; items in the same slot keep the order of selection. An item with a ``size``
    replaces smaller items in its slot: a passage replaces its excerpt. If a ``required`` item does not fit, the
    context is empty. ``truncate`` shortens the item to one of the ascending ``cut_points`` if no item fits. If an
    ``ordered`` item fits alone but not after the others, the items after it are left out as well.
    """

    slot: tuple[int, ...]
    text: str
    sources: tuple[ContextSource, ...] = ()
    size: int = 0
    required: bool = False
    cut_points: tuple[int, ...] = ()
    truncate: Callable[[int], str] | None = None
    ordered: bool = False


Render = Callable[[Sequence[Item]], str]
"""Renders a selection of the items of a style."""


def _texts_by_slot(items: Sequence[Item]) -> Iterator[tuple[tuple[int, ...], list[str]]]:
    slot = attrgetter("slot")
    return ((key, [item.text for item in group]) for key, group in groupby(sorted(items, key=slot), key=slot))


def _alternate(*lists: Iterable[Item | None]) -> list[Item]:
    """Return the first item of each list, then the second item of each, and so on."""
    return [item for row in zip_longest(*lists) for item in row if item is not None]


def _entity(result: Retrieved, name: str) -> Entity:
    """Return the entity that a fact names, with its canonical id."""
    return result.known.get(name) or Entity(name, name)


def _source(entity: Entity) -> ContextSource:
    return ContextSource("entity", entity.id, entity.name)


def _fact_sources(fact: Fact) -> tuple[ContextSource, ...]:
    return (ContextSource("fact", fact.id, fact.relation), ContextSource("chunk", fact.chunk_id))


# -- graph: slots are (_HEAD,), (_ENTITY, number, part), (_RELATIONSHIPS,) and (_PASSAGE, rank)

_HEAD, _ENTITY, _RELATIONSHIPS, _PASSAGE = 0, 1, 2, 3
_HEADING, _RELATED, _DESCRIPTION = 0, 1, 2
_MAX_JOINING = 3
_HEADINGS = {_ENTITY: "Entities", _RELATIONSHIPS: "Facts"}


def graph_block(
    result: Retrieved,
    ranks: Mapping[str, int],
    *,
    with_passages: bool = True,
    relationships: bool = True,
    cited: bool = True,
) -> tuple[list[Item], Render]:
    """Return entities, facts and the passages.

    An excerpt of each passage and the facts that join passages to the question come first; then what is known about
    the question's entities, more of the passages, and other facts. ``relationships=False`` leaves facts out;
    ``cited=False`` writes only a number above each passage.
    """
    joining, others = _relationships(result, (_RELATIONSHIPS,)) if relationships else ([], [])
    highlighter = Highlighter(result)
    sizes = [
        _passage_items(highlighter, hit, _passage_head(hit, f"[{rank}]", cited=cited), (_PASSAGE, rank), cited=cited)
        for hit in (result.hits if with_passages else ())
        for rank in [ranks[hit.chunk.id]]
    ]
    first = _alternate((items[0] for items in sizes), joining[:_MAX_JOINING])
    longer = _alternate(*(items[1:] for items in sizes))
    others = [*joining[_MAX_JOINING:], *others]
    if not result.context_format.published:
        return [*first, *_entity_lines(result), *longer, *others], _render_graph
    return _published_block(result, first, longer, others, relationships=relationships)


def _entity_lines(result: Retrieved) -> Iterator[Item]:
    """Yield a line for each of the question's entities that has a type or a description."""
    for entity in result.entities:
        if entity.type or entity.description:
            about = f": {shortened(entity.description, _MAX_DESCRIPTION)}" if entity.description else ""
            yield Item((_ENTITY,), f"- {_with_type(entity)}{about}", (_source(entity),))


def _published_block(
    result: Retrieved, first: list[Item], longer: list[Item], others: list[Item], *, relationships: bool
) -> tuple[list[Item], Render]:
    """Return the block of document 000 and the passages.

    Headings and descriptions come first, and last those of the related entities that are described. If the question
    names no entity, the entities of the first facts are shown.
    """
    entities: Sequence[Entity] = result.entities or _entities_of_facts(result)
    names = ", ".join(list_item(entity.name) for entity in result.entities)
    head = Item((_HEAD,), f"## Knowledge Graph Context\nQuery entities: [{names}]", required=True)
    related = [[*_related(result, entity, i)] for i, entity in enumerate(entities)] if relationships else []
    more = _alternate(others, chain.from_iterable(zip_longest(*related)))
    described = [
        Item((_ENTITY, len(entities), _HEADING), f"### {_with_type(other)}\n{_description(other)}", (_source(other),))
        for other in _other_ends(result, chain(*related))
        if other not in entities
    ]
    return [head, *_entity_items(entities), *first, *longer, *more, *described], _render_published


def _other_ends(result: Retrieved, related: Iterable[Item]) -> Iterator[Entity]:
    """Yield the entities of items that have a description, each once."""
    for end in dict.fromkeys(source.id for item in related for source in item.sources):
        if (other := _entity(result, end)).description:
            yield other


def _render_graph(items: Sequence[Item]) -> str:
    """Return the sections that have items; passages alone need no heading."""
    texts: dict[int, list[str]] = {}
    for slot, listed in _texts_by_slot(items):
        texts.setdefault(slot[0], []).extend(listed)
    passages = "\n\n".join(texts.pop(_PASSAGE, ()))
    sections = ["\n".join([f"### {_HEADINGS[kind]}", *listed]) for kind, listed in texts.items()]
    if passages:
        sections.append(f"### Passages\n{passages}" if sections else passages)
    return "\n\n".join(sections)


def _entities_of_facts(result: Retrieved) -> list[Entity]:
    """Return up to five entities of the first facts."""
    ends = [_entity(result, end).id for fact in result.facts[:5] for end in fact.entities[:2]]
    return [result.known[end] for end in dict.fromkeys(ends) if end in result.known][:5]


def _entity_items(entities: Sequence[Entity]) -> list[Item]:
    """Return the headings of entities, then their descriptions."""
    headings, descriptions = [], []
    for i, entity in enumerate(entities):
        headings.append(Item((_ENTITY, i, _HEADING), f"### {_with_type(entity)}", (_source(entity),)))
        if entity.description:
            descriptions.append(Item((_ENTITY, i, _DESCRIPTION), _description(entity)))
    return headings + descriptions


def _description(entity: Entity) -> str:
    return f"Description: {shortened(entity.description, _MAX_DESCRIPTION)}"


def _with_type(entity: Entity, mark: str = "") -> str:
    """Return the name of an entity, between marks such as ``**``, and its type in brackets."""
    name = f"{mark}{one_line(entity.name)}{mark}"
    return f"{name} ({one_line(entity.type)})" if entity.type else name


def _render_published(items: Sequence[Item]) -> str:
    sections: list[str] = []
    has_passages = False
    for slot, texts in _texts_by_slot(items):
        if slot[0] == _RELATIONSHIPS:
            sections.append("\n".join(["### Relevant Relationships", *texts]))
        elif slot[0] == _PASSAGE:
            sections.append(texts[0] if has_passages else f"### Passages\n{texts[0]}")
            has_passages = True
        elif slot[0] == _ENTITY and slot[-1] == _RELATED:
            sections[-1] += "\n" + _wrap("Related: ", texts)
        elif slot[0] == _ENTITY and slot[-1] == _DESCRIPTION:
            sections[-1] += "\n" + texts[0]
        else:
            sections.extend(texts)
    return "\n\n".join(sections)


def _wrap(label: str, items: Sequence[str]) -> str:
    """Wrap a comma-separated list between items."""
    lines = [label + items[0]]
    for item in items[1:]:
        if len(lines[-1]) + len(item) + 2 <= _LINE_WIDTH:
            lines[-1] += f", {item}"
        else:
            lines[-1] += ","
            lines.append(f"  {item}")
    return "\n".join(lines)


def _related(result: Retrieved, entity: Entity, number: int) -> Iterator[Item]:
    """Yield the entities that share a fact with an entity: the question's first, then by relation and weight."""
    named, weights = {other.id for other in result.entities}, _weights(result, entity)
    strongest = sorted(weights.items(), key=lambda pair: (pair[0][0] not in named, not pair[0][1], -pair[1], pair[0]))
    with_relation = {other for other, relation in weights if relation}
    for (other, relation), weight in strongest[:_MAX_RELATED]:
        if relation or other not in with_relation:  # a sentence adds nothing to a relation
            label = f"{one_line(relation)}, weight: {weight:g}" if relation else f"weight: {weight:g}"
            name = _entity(result, other).name
            source = ContextSource("entity", other, name)
            yield Item((_ENTITY, number, _RELATED), f"{list_item(name)} ({label})", (source,))


def _weights(result: Retrieved, entity: Entity) -> dict[tuple[str, str], float]:
    """Return the ids of the entities that share facts with an entity, by relation, with the largest weight."""
    weights: dict[tuple[str, str], float] = {}
    for fact in result.facts:
        ends = [_entity(result, end).id for end in fact.entities]
        if entity.id not in ends:
            continue
        relation = fact.relation
        if relation and ends[0] != entity.id:
            relation = inverse(relation, dict(result.context_format.inverses))
        for other in dict.fromkeys(ends):
            if other != entity.id:
                weights[other, relation] = max(weights.get((other, relation), 0.0), fact.weight)
    return weights


def _relationships(result: Retrieved, slot: tuple[int, ...]) -> tuple[list[Item], list[Item]]:
    """Return the facts that join the question's entities with each other or with a hit, and the others."""
    named = {entity.id for entity in result.entities}
    on_paths = {step.id for step in chain(*(hit.path for hit in result.hits)) if step.kind == "fact"}
    joint, on_path, others = list[Item](), list[Item](), list[Item]()
    for fact in result.facts if result.context_format.published else _new_facts(result):
        entities = {entity.id: entity for entity in (_entity(result, name) for name in fact.entities)}
        if text := _relationship(result, fact, entities.values()):
            kind = joint if len(entities.keys() & named) > 1 else on_path if fact.id in on_paths else others
            kind.append(Item(slot, text, _fact_sources(fact)))
    return [*joint, *on_path], others


def _relationship(result: Retrieved, fact: Fact, entities: Iterable[Entity]) -> str:
    """Return the line of a fact between entities; empty if it has one end alone."""
    ends = list(dict.fromkeys(list_item(entity.name) for entity in entities))
    if len(ends) < 2 and not fact.value:
        return ""
    objects = ", ".join([*ends[1:4], *([one_line(fact.value)] if fact.value else [])])
    if result.context_format.published:
        return f"- {ends[0]} -> {objects}: {_fact_label(fact, ends)} (strength: {fact.weight:g})"
    return _fact_line(result, fact, f"{ends[0]} -> {one_line(fact.relation.replace('_', ' '))} -> {objects}")


def _new_facts(result: Retrieved) -> Iterator[Fact]:
    """Yield the facts about entities that the question names or a passage is about, which no passage states itself."""
    about = {entity.id for entity in result.entities}.union(*(hit.reason.subjects for hit in result.hits))
    read = {name for hit in result.hits for name in (hit.chunk.id, *(hit.expanded.ids if hit.expanded else ()))}
    for fact in result.facts:
        is_stated = not fact.relation and fact.chunk_id in read
        if not is_stated and about.intersection(_entity(result, name).id for name in fact.entities):
            yield fact


def _fact_line(result: Retrieved, fact: Fact, triple: str) -> str:
    """Return a fact as a sentence; a triple whose text does not name its ends with these."""
    names = [_entity(result, name).name for name in fact.entities] + [fact.value] * bool(fact.value)
    written = fact.text.casefold()
    if not fact.relation or all(name.casefold() in written for name in names):
        spaced = fact.relation.replace("_", " ")
        return f"- {one_line(fact_words(result, fact)).replace(f' {fact.relation} ', f' {spaced} ')}"
    return f"- {triple}: {one_line(fact.text)}" if fact.text else f"- {triple}"


def _fact_label(fact: Fact, ends: Sequence[str]) -> str:
    """Return a fact's relation and text, without the text if it only repeats the triple."""
    text = one_line(fact.text)
    if not fact.relation:
        return text
    relation = one_line(fact.relation)
    triples = {
        " ".join([ends[0], word, *ends[1:], fact.value]).casefold().strip()
        for word in (relation, relation.replace("_", " "), f"{relation}:")
    }
    return f'"{relation}"' if text.casefold() in triples else f'"{relation}" -- {text}'


# -- passages: slots are (kind,) for sections and (_PASSAGES, place)

_ENTITIES, _FACTS, _PASSAGES = 0, 1, 2
_SECTIONS = (
    (_ENTITIES, "## Related Entities", "\n\n"),
    (_FACTS, "## Relationships\n", "\n"),
)
"""Kind, heading and separator of the sections above the passages."""


def passages(
    result: Retrieved,
    ranks: Mapping[str, int],
    *,
    with_entities: bool = True,
    relationships: bool = False,
    cited: bool = True,
    numbered: bool = False,
) -> tuple[list[Item], Render]:
    """Return the passages, preceded by the question's entities (:func:`_described_entities`).

    Entities are left out if the graph was not used. ``relationships`` adds the relationships after the entities;
    ``cited=False`` writes the score alone above a passage; ``numbered`` writes its rank instead of the score.
    """
    published = result.context_format.published
    highlighter = Highlighter(result)
    sizes = []
    for place, hit in enumerate(result.hits):
        if numbered:
            head = _passage_head(hit, f"[{ranks[hit.chunk.id]}]", cited=cited)
        else:
            head = _passage_head(hit, f"[Score: {hit.score:.2f}]", cited=cited and not published, with_id=True)
        sizes.append(_passage_items(highlighter, hit, head, (_PASSAGES, place), cited=cited, as_is=published))
    first = [items[0] for items in sizes]
    entities = _described_entities(result) if with_entities and result.graph_ran else []
    facts = chain(*_relationships(result, (_FACTS,))) if relationships else ()
    longer = _alternate(*(items[1:] for items in sizes))
    render = partial(_render_passages, published=published)
    return [*first[:1], *entities, *first[1:], *facts, *longer], render


def _described_entities(result: Retrieved) -> list[Item]:
    """Return the question's entities that have a type or a description; in the published format all of them."""
    items, published = [], result.context_format.published
    for entity in result.entities:
        if published or entity.type or entity.description:
            text = _with_type(entity, "**")
            if entity.description:
                text += ("\n\n" if published else "\n") + one_line(entity.description)
            items.append(Item((_ENTITIES,), text, (_source(entity),)))
    return items


def _render_passages(items: Sequence[Item], *, published: bool) -> str:
    """Return sections and passages with rules between them; ``published`` has the line breaks of document 001."""
    parts = []
    for kind, heading, separator in _SECTIONS:
        if texts := [item.text for item in items if item.slot == (kind,)]:
            parts.append(separator.join([heading, *texts]))
    texts = [text for slot, texts in _texts_by_slot(items) if slot[0] == _PASSAGES for text in texts]
    if published:
        return "\n---\n\n".join([*(f"{part}\n\n" for part in parts), *(f"{text}\n" for text in texts)])
    return "\n\n---\n\n".join([*parts, *texts])


def _passage_head(hit: Hit, label: str, *, cited: bool, with_id: bool = False) -> str:
    """Return the line above a passage: a label and, if it is cited, its name and id."""
    if not cited:
        return label
    cite, chunk_id = one_line(citation(hit.chunk)), one_line(hit.chunk.id)
    return f"{label} {cite} ({chunk_id})" if with_id and cite != chunk_id else f"{label} {cite}"


def _passage_items(
    highlighter: Highlighter, hit: Hit, head: str, slot: tuple[int, ...], *, cited: bool, as_is: bool = False
) -> list[Item]:
    """Return a passage in every length, from the shortest excerpt to the whole passage, ``as_is`` or escaped."""
    chunk = hit.chunk
    text = chunk.text if as_is else body_text(chunk)
    sources: tuple[ContextSource, ...] = (ContextSource("chunk", chunk.id, chunk.title),)
    if hit.expanded is not None:
        sources += tuple(ContextSource("chunk", name, chunk.title) for name in hit.expanded.ids if name != chunk.id)
    if hit.origin == "graph" and hit.entity is not None and cited:
        sources += (ContextSource("entity", hit.entity.id, hit.entity.text),)
    items = [
        Item(slot, f"{head}\n{body(highlighter.snippet(hit, size))}", sources, size=size)
        for size in _EXCERPTS
        if size < len(text)
    ]
    whole = Item(slot, f"{head}\n{text if as_is else body(text)}", sources, len(text), cut_points=_cut_points(text))
    return [*items, replace(whole, truncate=lambda end: f"{head}\n{body(text[:end])} ...")]


def _cut_points(text: str) -> tuple[int, ...]:
    """Return where a passage can be truncated: after each sentence, and within the first one after each word.

    Runs of more than 16 characters without a space can be cut inside (Chinese, URLs).
    """
    ends = [end for _, end in sentences(text)][:-1]
    first = ends[0] if ends else len(text)
    words = [match.end() for match in _WORD.finditer(text, 0, first)]
    return tuple(sorted({*ends, *words} - {len(text)}))


# -- narrative: a slot for each subject

_OF_USERS = ("user_edit", "conversation")  # sources of facts that a user told


def narrative(result: Retrieved) -> tuple[list[Item], Render]:
    """Return facts grouped by subject, both in order of relevance, facts about the user first.

    The least relevant facts are left out if there is no room for all, whatever their subject.
    """
    subjects = [_subject(result, fact) for fact in result.facts]
    # Stable: subjects stay in the order of their most relevant fact.
    order = sorted(filter(None, dict.fromkeys(subjects)), key=lambda subject: not subject[1])
    names = {subject: _entity(result, subject[0]).name for subject in order}
    items = [
        Item(
            (order.index(subject),),
            _narrative_line(result, fact),
            (*_fact_sources(fact), ContextSource("entity", subject[0], names[subject])),
            ordered=True,
        )
        for fact, subject in zip(result.facts, subjects, strict=True)
        if subject
    ]

    def render(chosen: Sequence[Item]) -> str:
        sections = []
        for (place,), texts in _texts_by_slot(chosen):
            subject = order[place]
            heading = "### 👤 USER CONTEXT" if subject[1] else f"### 💡 CONTEXT: {one_line(names[subject])}"
            sections.append("\n".join([heading, *dict.fromkeys(texts)]))
        return "\n\n".join(sections)

    return items, render


def _subject(result: Retrieved, fact: Fact) -> tuple[str, bool] | None:
    """Return the id of a fact's subject, and whether it is the user; None for a fact without entities.

    An entity "User" of a document is not the user.
    """
    if not fact.entities:
        return None
    subject = _entity(result, fact.entities[0]).id
    is_told = result.context_format.published or fact.source in _OF_USERS
    return subject, is_told and _entity(result, subject).name.lower() == "user"


def _narrative_line(result: Retrieved, fact: Fact) -> str:
    if not fact.relation:
        return f"- {one_line(fact.text)}"
    objects = [one_line(_entity(result, entity).name) for entity in fact.entities[1:] or fact.entities[:1]]
    return f"- {one_line(fact.relation)}: {one_line(fact.value) if fact.value else ', '.join(objects)}"
