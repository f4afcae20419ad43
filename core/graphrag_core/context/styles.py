"""The context styles. Each turns a result into items, most useful first, and a function that renders them.

``graph_block`` writes the "Knowledge Graph Context" block and the passages, ``passages`` the passages
with scores and sources, ``narrative`` the facts grouped by subject. Names and text from documents are
escaped here, so that they cannot pass for the structure of the context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from graphrag_core.context.display import Highlighter, body_text, citation, copies_note
from graphrag_core.context.escape import body, list_item, one_line, shortened
from graphrag_core.context.ordering import Edge, spanning_tree_order
from graphrag_core.context.relations import inverse
from graphrag_core.model import Community, Entity, Fact
from graphrag_core.text import sentences

if TYPE_CHECKING:
    from graphrag_core.result import Hit, Result

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

    ``slot`` is its place in the text; items in the same slot keep the order of selection. An item of
    some ``size`` takes the place of smaller ones in its slot, such as a passage that of its excerpt.
    If a ``required`` item does not fit, the context is empty. ``truncate`` shortens the item to one
    of the ascending ``cut_points``; it is used only if nothing else fits. If an ``ordered`` item does not fit, though
    it would alone, those after it are left out as well.
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


def _by_slot(items: Sequence[Item]) -> Iterator[tuple[tuple[int, ...], list[Item]]]:
    slot = attrgetter("slot")
    return ((key, list(group)) for key, group in groupby(sorted(items, key=slot), key=slot))


def _entity(result: Result, entity: str) -> Entity:
    """Return an entity as a fact refers to it, under its canonical id."""
    return result.known.get(entity) or Entity(entity, entity)


def _fact_sources(fact: Fact) -> tuple[ContextSource, ...]:
    return (ContextSource("fact", fact.id, fact.relation), ContextSource("chunk", fact.chunk_id))


# -- graph: slots are (_HEAD,), (_ENTITY, number, part), (_RELATIONSHIPS,) and (_PASSAGE, place)

_HEAD, _ENTITY, _RELATIONSHIPS, _PASSAGE = 0, 1, 2, 3
_HEADING, _RELATED, _DESCRIPTION = 0, 1, 2
_MAX_JOINING = 3


def graph_block(
    result: Result, *, with_passages: bool = True, relationships: bool = True, cited: bool = True
) -> tuple[list[Item], Render]:
    """Return the block of entities, their relations and the relevant relationships, and the passages.

    Headings and descriptions come first. Then an excerpt of each passage in the order of the hits and
    the facts that join them to the question; then more of the passages, other relationships and
    related entities. A question without entities shows those of the first facts. Without
    ``with_passages``, the block alone; without ``relationships``, entities and passages; without ``cited``, passages
    have numbers and no names.
    """
    entities: Sequence[Entity] = result.entities
    if not entities:
        ends = [_entity(result, end).id for fact in result.facts[:5] for end in fact.entities[:2]]
        entities = [result.known[end] for end in dict.fromkeys(ends) if end in result.known][:5]
    names = ", ".join(list_item(entity.name) for entity in result.entities)
    head = Item((_HEAD,), f"## Knowledge Graph Context\nQuery entities: [{names}]", required=True)
    headings = []
    descriptions = []
    for i, entity in enumerate(entities):
        title = one_line(entity.name) + (f" ({one_line(entity.type)})" if entity.type else "")
        source = ContextSource("entity", entity.id, entity.name)
        headings.append(Item((_ENTITY, i, _HEADING), f"### {title}", (source,)))
        if entity.description:
            text = f"Description: {shortened(entity.description, _MAX_DESCRIPTION)}"
            descriptions.append(Item((_ENTITY, i, _DESCRIPTION), text))
    joining, others = _relationships(result) if relationships else ([], [])
    texts = Highlighter(result)
    sizes = [
        _passage_items(texts, hit, f"[{place}] {_cite(hit)}" if cited else f"[{place}]", (_PASSAGE, place))
        for place, hit in enumerate(result.hits if with_passages else (), 1)
    ]
    first = zip_longest((items[0] for items in sizes), joining[:_MAX_JOINING])
    growing = [item for row in zip_longest(*(items[1:] for items in sizes)) for item in row]
    related = [list(_related(result, entity, i)) for i, entity in enumerate(entities if relationships else ())]
    last = zip_longest([*joining[_MAX_JOINING:], *others], chain.from_iterable(zip_longest(*related)))
    rest = [*chain.from_iterable(first), *growing, *chain.from_iterable(last)]
    return [head, *headings, *descriptions, *(item for item in rest if item is not None)], _render_graph


def _render_graph(items: Sequence[Item]) -> str:
    sections: list[str] = []
    has_passages = False
    for slot, group in _by_slot(items):
        texts = [item.text for item in group]
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


def _related(result: Result, entity: Entity, number: int) -> Iterator[Item]:
    """Yield the entities that share a fact with an entity: those of the question first, then by relation and weight."""
    named = {other.id for other in result.entities}
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
                weights[other, relation] = min(weights.get((other, relation), 0.0) + fact.weight, 10.0)
    strongest = sorted(weights.items(), key=lambda pair: (pair[0][0] not in named, not pair[0][1], -pair[1], pair[0]))
    with_relation = {other for (other, relation), _ in strongest if relation}
    for (other, relation), weight in strongest[:_MAX_RELATED]:
        if relation or other not in with_relation:  # a sentence adds nothing to a relation
            label = f"{one_line(relation)}, weight: {weight:g}" if relation else f"weight: {weight:g}"
            name = _entity(result, other).name
            source = ContextSource("entity", other, name)
            yield Item((_ENTITY, number, _RELATED), f"{list_item(name)} ({label})", (source,))


def _relationships(result: Result) -> tuple[list[Item], list[Item]]:
    """Return the facts that join the question's entities with each other or with a hit, and the others."""
    named = {entity.id for entity in result.entities}
    on_paths = {step.id for hit in result.hits for step in hit.path if step.kind == "fact"}
    joint: list[Item] = []
    on_path: list[Item] = []
    others: list[Item] = []
    for fact in result.facts:
        entities = {_entity(result, entity).id for entity in fact.entities}
        ends = list(dict.fromkeys(list_item(_entity(result, entity).name) for entity in fact.entities))
        if len(ends) < 2 and not fact.value:
            continue
        objects = ", ".join([*ends[1:4], *([one_line(fact.value)] if fact.value else [])])
        text = f"- {ends[0]} -> {objects}: {_fact_label(fact, ends)} (strength: {fact.weight:g})"
        kind = joint if len(entities & named) > 1 else on_path if fact.id in on_paths else others
        kind.append(Item((_RELATIONSHIPS,), text, _fact_sources(fact)))
    return [*joint, *on_path], others


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


# -- passages: slots are (_ENTITIES,), (_FACTS,), (_COMMUNITIES,) and (_PASSAGES, place)

_ENTITIES, _FACTS, _PASSAGES, _COMMUNITIES = 0, 1, 2, 3


def passages(
    result: Result,
    *,
    organise: bool,
    with_entities: bool = True,
    relationships: bool = False,
    cited: bool = True,
    numbered: bool = False,
) -> tuple[list[Item], Render]:
    """Return the passages, preceded by the communities, and the question's entities with a type or a description.

    Where the graph was not used, the entities are left out. ``relationships`` adds the relationships after the
    entities; without ``cited`` a passage has its score alone. ``numbered`` writes its rank instead of the score.
    ``organise`` changes the order in the text. The best passages are selected first either way.
    """
    order = [hit.chunk.id for hit in result.hits]
    if organise:
        edges = [
            Edge(_entity(result, fact.entities[0]).id, _entity(result, other).id, fact.weight, fact.chunk_id)
            for fact in result.facts
            for other in fact.entities[1:]
        ]
        order = spanning_tree_order(order, edges, [entity.id for entity in result.entities])
    place = {chunk_id: i for i, chunk_id in enumerate(order)}
    texts = Highlighter(result)
    items = []
    for rank, hit in enumerate(result.hits, 1):
        head = f"[{rank}]" if numbered else f"[Score: {hit.score:.2f}]"
        if cited and (numbered or not result.context_format.published):
            head = f"{head} {_cite(hit)}" if numbered else _scored(hit)
        items.append(_passage_items(texts, hit, head, (_PASSAGES, place[hit.chunk.id])))
    facts = [replace(item, slot=(_FACTS,)) for item in chain(*_relationships(result))] if relationships else []
    described = []
    for entity in result.entities if with_entities and result.graph_ran else ():
        if entity.type or entity.description:
            text = f"**{one_line(entity.name)}**"
            text += f" ({one_line(entity.type)})" if entity.type else ""
            line = "\n\n" if result.context_format.published else "\n"
            text += f"{line}{one_line(entity.description)}" if entity.description else ""
            described.append(Item((_ENTITIES,), text, (ContextSource("entity", entity.id, entity.name),)))
    themes = [Item((_COMMUNITIES,), _theme(community)) for community in result.communities]
    first, *more = zip_longest(*items) if items else [()]
    rest = [item for item in chain.from_iterable(more) if item is not None]
    render = partial(_render_passages, published=result.context_format.published)
    return [*first[:1], *themes, *described, *first[1:], *facts, *rest], render


def _render_passages(items: Sequence[Item], *, published: bool) -> str:
    """Return sections and passages with rules between them; ``published`` has the line breaks of document 001."""
    entities = [item.text for item in items if item.slot == (_ENTITIES,)]
    themes = [item.text for item in items if item.slot == (_COMMUNITIES,)]
    parts = ["\n".join(["## Themes of the collection\n", *themes])] if themes else []
    parts += ["\n\n".join(["## Related Entities", *entities])] if entities else []
    facts = [item.text for item in items if item.slot == (_FACTS,)]
    parts += ["\n".join(["## Relationships\n", *facts])] if facts else []
    texts = [item.text for slot, group in _by_slot(items) if slot[0] == _PASSAGES for item in group]
    if published:
        return "\n---\n\n".join([*(f"{part}\n\n" for part in parts), *(f"{text}\n" for text in texts)])
    return "\n\n---\n\n".join([*parts, *texts])


def _theme(community: Community) -> str:
    names = ", ".join(list_item(name) for name in community.names)
    text = f"- {names} ({community.documents:,} documents)"
    return f"{text}: {shortened(community.description, _MAX_DESCRIPTION)}" if community.description else text


def _scored(hit: Hit) -> str:
    cited, chunk_id = _cite(hit), one_line(hit.chunk.id)
    return f"[Score: {hit.score:.2f}] {cited}" + ("" if cited == chunk_id else f" ({chunk_id})")


def _cite(hit: Hit) -> str:
    copies = copies_note(hit)
    return one_line(citation(hit.chunk)) + (f", {copies}" if copies else "")


def _passage_items(texts: Highlighter, hit: Hit, head: str, slot: tuple[int, ...]) -> list[Item]:
    """Return a passage in every length, the shortest excerpt first and all of it last."""
    chunk = hit.chunk
    text = body_text(chunk)
    sources: tuple[ContextSource, ...] = (ContextSource("chunk", chunk.id, chunk.title),)
    if hit.origin == "graph" and hit.entity is not None:
        sources += (ContextSource("entity", hit.entity.id, hit.entity.text),)
    items = [
        Item(slot, f"{head}\n{body(texts.snippet(hit, size))}", sources, size=size)
        for size in _EXCERPTS
        if size < len(text)
    ]
    whole = Item(
        slot,
        f"{head}\n{body(text)}",
        sources,
        size=len(text),
        cut_points=_cut_points(text),
        truncate=lambda end: f"{head}\n{body(text[:end])} ...",
    )
    return [*items, whole]


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


def narrative(result: Result) -> tuple[list[Item], Render]:
    """Return facts grouped by subject, both in order of relevance, the user's own first.

    What does not fit is the least relevant, whatever its subject.
    """
    ids = [_entity(result, fact.entities[0]).id if fact.entities else "" for fact in result.facts]
    names = {subject: _entity(result, subject).name for subject in dict.fromkeys(ids) if subject}

    def is_told(fact: Fact) -> bool:  # what a document says of an entity "User" is not what the user said
        return result.context_format.published or fact.source in _OF_USERS

    subject_of = [
        (subject, is_told(fact) and bool(subject) and names[subject].lower() == "user")
        for fact, subject in zip(result.facts, ids, strict=True)
    ]
    distinct = [subject for subject in dict.fromkeys(subject_of) if subject[0]]
    subjects = sorted(distinct, key=lambda subject: not subject[1])  # stable: by the most relevant fact
    items = [
        Item(
            (subjects.index(subject),),
            _narrative_line(result, fact),
            (*_fact_sources(fact), ContextSource("entity", subject[0], names[subject[0]])),
            ordered=True,
        )
        for fact, subject in zip(result.facts, subject_of, strict=True)
        if subject[0]
    ]

    def render(chosen: Sequence[Item]) -> str:
        sections = []
        for (place,), group in _by_slot(chosen):
            subject, is_user = subjects[place]
            heading = "### 👤 USER CONTEXT" if is_user else f"### 💡 CONTEXT: {one_line(names[subject])}"
            sections.append("\n".join([heading, *dict.fromkeys(item.text for item in group)]))
        return "\n\n".join(sections)

    return items, render


def _narrative_line(result: Result, fact: Fact) -> str:
    if not fact.relation:
        return f"- {one_line(fact.text)}"
    objects = [list_item(_entity(result, entity).name) for entity in fact.entities[1:] or fact.entities[:1]]
    return f"- {one_line(fact.relation)}: {one_line(fact.value) if fact.value else ', '.join(objects)}"
