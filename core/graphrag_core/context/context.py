"""``write_context``: a result as prompt text in one of four styles, within a token budget.

A style makes pieces, most useful first, and a function that renders the chosen ones. Names and text from documents are
escaped here, so that they cannot pass for the structure of the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, zip_longest
from typing import Literal, NamedTuple

from typing_extensions import Self

from graphrag_core.context.display import Highlighter, body_text, citation, fact_words
from graphrag_core.context.escape import body, list_item, one_line, shortened
from graphrag_core.context.relations import inverse
from graphrag_core.context.retrieved import Hit, Retrieved
from graphrag_core.context.settings import Style, check_style
from graphrag_core.errors import check_integer
from graphrag_core.model import Entity, Fact
from graphrag_core.text import Tokenizer, token_counter

_MAX_BLOCK = 500  # tokens of the graph block of the style "both"
_EXCERPTS = (300, 600, 1_200, 2_400)  # characters to which a passage is shortened if there is no room for all of it
_SHORTEST = (200, 120, 70, 40, 20, 10)  # of the first passage, if nothing else fits
_FIRST_FACTS = 3  # that come with the first excerpts
_MAX_RELATED = 12
_MAX_DESCRIPTION = 400
_LINE_WIDTH = 88
_OF_USERS = ("user_edit", "conversation")  # sources of facts that a user told
_ENTITY, _FACT, _PASSAGE = 1, 2, 3  # sections; a slot is a section and a place in it
_HEADING, _RELATED, _DESCRIPTION = 0, 1, 2  # parts of an entity's section
_HEADINGS = {_ENTITY: "## Related Entities", _FACT: "## Relationships\n"}  # of the style "passages"


class ContextSource(NamedTuple):
    """A chunk, entity or fact that a context contains, so that an answer can cite it."""

    kind: Literal["chunk", "entity", "fact"]
    id: str
    name: str = ""


class Context(str):
    """Prompt text, with its token count, the sources it is based on and its style."""

    __slots__ = ("sources", "style", "tokens")

    tokens: int
    sources: tuple[ContextSource, ...]
    style: Style

    def __new__(cls, text: str, tokens: int, sources: tuple[ContextSource, ...], style: Style) -> Self:
        """Create a context from its text and attributes."""
        context = super().__new__(cls, text)
        context.tokens, context.sources, context.style = tokens, sources, style
        return context

    def __getnewargs__(self) -> tuple[str, int, tuple[ContextSource, ...], Style]:  # type: ignore[override]
        return str(self), self.tokens, self.sources, self.style


class _Piece(NamedTuple):
    """A part of a context that is included whole or not at all. A later piece of the same slot replaces it."""

    slot: tuple[int, ...]
    text: str
    sources: tuple[ContextSource, ...]


_Pieces = list[_Piece]
_Render = Callable[[_Pieces], str]


def write_context(
    result: Retrieved,
    *,
    ranks: Mapping[str, int],
    max_tokens: int,
    style: Style,
    tokenizer: Tokenizer | None,
    include_relationships: bool | None = None,
    include_sources: bool = True,
    numbered: bool = False,
) -> Context:
    """Render a result in a style within a token budget.

    Falls back to the ``"passages"`` style if the result has no facts (for ``"graph"`` and ``"both"``: neither
    facts nor descriptions) or the graph was not used; for ``"both"`` in the published format also if the graph found
    none of the hits. ``Context.style`` is the style that was used. ``ranks`` are the numbers of the passages, by id.
    See :meth:`graphrag_core.Result.context` for the other parameters and errors.
    """
    check_style(style)
    check_integer(max_tokens, "max_tokens")
    numbered = numbered or (style == "graph" and not result.context_format.published)
    count, style = token_counter(tokenizer), _usable_style(result, style)
    writer = _Writer(result, ranks, cited=include_sources, numbered=numbered)
    text, chosen = writer.write(style, include_relationships, max_tokens, count)
    sources = dict.fromkeys(source for piece in chosen for source in piece.sources)
    kept = tuple(source for source in sources if include_sources or source.kind == "entity")
    return Context(text, count(text) if text else 0, kept, style)


def _usable_style(result: Retrieved, style: Style) -> Style:
    """Return the style, or ``"passages"`` if the graph has nothing for it."""
    described = style in ("graph", "both") and any(entity.description for entity in result.entities)
    of_design = style == "both" and result.context_format.published
    unlinked = of_design and not any("graph" in hit.channels for hit in result.hits)
    return style if result.graph_ran and (result.facts or described) and not unlinked else "passages"


def _fill(
    pieces: _Pieces, render: _Render, max_tokens: int, count: Callable[[str], int], *, in_order: bool = False
) -> tuple[str, _Pieces]:
    """Select pieces greedily and return the rendered text with them; ``in_order`` none after one that does not fit.

    The whole text is counted each time: separators take tokens, too.
    """
    chosen = {piece.slot: piece for piece in pieces}
    text = render([*chosen.values()])
    if count(text) <= max_tokens:
        return text, [*chosen.values()]
    chosen, text = {}, ""
    for piece in pieces:
        tried = {**chosen, piece.slot: piece}
        longer = render([*tried.values()])
        if count(longer) <= max_tokens:
            chosen, text = tried, longer
        elif in_order and chosen:
            break
    return text, [*chosen.values()]


class _Writer:
    """Makes the pieces of a result for each style."""

    def __init__(self, result: Retrieved, ranks: Mapping[str, int], *, cited: bool, numbered: bool) -> None:
        self.result, self.ranks, self.cited, self.numbered = result, ranks, cited, numbered
        self.published = result.context_format.published
        self.texts = Highlighter(result)

    # -- styles

    def write(
        self, style: Style, relationships: bool | None, max_tokens: int, count: Callable[[str], int]
    ) -> tuple[str, _Pieces]:
        """Return the text in a style, and the pieces in it. The block of "both" takes at most half of the budget."""
        if style == "narrative":
            return _fill(*self.narrative(), max_tokens, count, in_order=True)
        facts, block, of_block = relationships is not False, "", _Pieces()
        if style == "both":
            block, of_block = _fill(*self.graph(facts=facts, passages=False), min(_MAX_BLOCK, max_tokens // 2), count)
        if style == "graph":
            pieces, render = self.graph(facts=facts)
        else:
            listed = relationships is True and self.result.graph_ran and style == "passages"
            pieces, render = self.passages(style, facts=listed)
        text, chosen = _fill(pieces, lambda pieces: _blocks(render(pieces), block), max_tokens, count)
        if chosen or block:
            return (text, [*chosen, *of_block]) if chosen else (block, of_block)
        for size in _SHORTEST if self.result.hits else ():
            piece = self._passage(0, self.result.hits[0], size, as_is=False, numbered=self.numbered)
            if count(text := render([piece])) <= max_tokens:
                return text, [piece]
        return "", []

    def graph(self, *, facts: bool, passages: bool = True) -> tuple[_Pieces, _Render]:
        """Return entities, facts and passages: excerpts and the facts that join them to the question come first."""
        joining, others = self._facts() if facts else ([], [])
        first, longer = self._passages(as_is=False, numbered=True) if passages else ([], [])
        first, others = _by_turns(first, joining[:_FIRST_FACTS]), [*joining[_FIRST_FACTS:], *others]
        if self.published:
            return self._published_block(first, longer, others, related=facts)
        return [*first, *self._entities(listed=True), *longer, *others], _render_graph

    def passages(self, style: Style, *, facts: bool) -> tuple[_Pieces, _Render]:
        """Return the passages with scores or numbers; in the style "passages" with entities, and facts if wanted."""
        first, longer = self._passages(as_is=self.published, numbered=self.numbered)
        above = self._entities(listed=False) if style == "passages" and self.result.graph_ran else ()
        relations = chain(*self._facts()) if facts else ()
        return [*first[:1], *above, *first[1:], *relations, *longer], self._render_passages

    def narrative(self) -> tuple[_Pieces, _Render]:
        """Return facts grouped by subject, both in order of relevance, facts about the user first.

        The user is the subject "User" of a fact that a user told; an entity "User" of a document is not.
        """
        told = [(fact, self._entity(fact.entities[0])) for fact in self.result.facts if fact.entities]
        are_users = [
            (self.published or fact.source in _OF_USERS) and subject.name.lower() == "user" for fact, subject in told
        ]
        subjects = dict.fromkeys((subject, is_user) for (_, subject), is_user in zip(told, are_users, strict=True))
        order = sorted(subjects, key=lambda subject: not subject[1])  # stable
        headings = [
            "### 👤 USER CONTEXT" if is_user else f"### 💡 CONTEXT: {one_line(subject.name)}"
            for subject, is_user in order
        ]
        pieces = _Pieces()
        for (fact, subject), is_user in zip(told, are_users, strict=True):
            objects = ", ".join(one_line(self._entity(name).name) for name in fact.entities[1:] or fact.entities[:1])
            line = f"{one_line(fact.relation)}: {one_line(fact.value) if fact.value else objects}"
            slot = order.index((subject, is_user)), len(pieces)
            sources = (*_fact_sources(fact), _source(subject))
            pieces.append(_Piece(slot, f"- {line if fact.relation else one_line(fact.text)}", sources))
        return pieces, lambda chosen: "\n\n".join(
            "\n".join([headings[place], *dict.fromkeys(lines)]) for place, lines in _sections(chosen).items()
        )

    # -- passages

    def _passages(self, *, as_is: bool, numbered: bool) -> tuple[_Pieces, _Pieces]:
        """Return the passages in their shortest form first, then the longer forms, round robin."""
        forms = []
        for place, hit in enumerate(self.result.hits):
            whole = len(hit.chunk.text if as_is else body_text(hit.chunk))
            sizes = [*(size for size in _EXCERPTS if size < whole), None]
            forms.append([self._passage(place, hit, size, as_is=as_is, numbered=numbered) for size in sizes])
        return [pieces[0] for pieces in forms], _by_turns(*(pieces[1:] for pieces in forms))

    def _passage(self, place: int, hit: Hit, size: int | None, *, as_is: bool, numbered: bool) -> _Piece:
        """Return a passage under its number or score, and its name and id if it is cited.

        It is shortened to a number of characters, or the whole one, ``as_is`` or escaped.
        """
        chunk, head = hit.chunk, f"[{self.ranks[hit.chunk.id]}]" if numbered else f"[Score: {hit.score:.2f}]"
        if self.cited and (numbered or not self.published):
            name, chunk_id = one_line(citation(chunk)), one_line(chunk.id)
            head += f" {name}" if numbered or name == chunk_id else f" {name} ({chunk_id})"
        if size is None:
            text = chunk.text if as_is else body(body_text(chunk))
        else:
            text = body(self.texts.snippet(hit, size))
        sources = [ContextSource("chunk", name, chunk.title) for name in dict.fromkeys((chunk.id, *_ids(hit)))]
        if hit.origin == "graph" and hit.entity is not None and self.cited:
            sources.append(ContextSource("entity", hit.entity.id, hit.entity.text))
        return _Piece((_PASSAGE, place), f"{head}\n{text}", tuple(sources))

    def _render_passages(self, chosen: _Pieces) -> str:
        """Return sections and passages with rules between them; published, with the line breaks of design 001."""
        sections = _sections(chosen)
        texts, end = sections.pop(_PASSAGE, []), "\n" if self.published else ""
        gaps = {_ENTITY: "\n\n", _FACT: "\n"}
        parts = [gaps[kind].join([_HEADINGS[kind], *lines]) + end * 2 for kind, lines in sections.items()]
        return ("\n---\n\n" if self.published else "\n\n---\n\n").join([*parts, *(text + end for text in texts)])

    # -- entities

    def _entity(self, name: str) -> Entity:
        """Return the entity that a fact names, with its canonical id."""
        return self.result.known.get(name) or Entity(name, name)

    def _entities(self, *, listed: bool) -> _Pieces:
        """Return the question's entities, in a list or not; without type and description only if published."""
        gap = ": " if listed else "\n\n" if self.published else "\n"
        pieces = _Pieces()
        for at, entity in enumerate(self.result.entities):
            text = f"- {_with_type(entity)}" if listed else _with_type(entity, "**")
            if entity.description:
                text += gap + (
                    shortened(entity.description, _MAX_DESCRIPTION) if listed else one_line(entity.description)
                )
            if entity.type or entity.description or self.published:
                pieces.append(_Piece((_ENTITY, at), text, (_source(entity),)))
        return pieces

    def _published_block(
        self, first: _Pieces, longer: _Pieces, others: _Pieces, *, related: bool
    ) -> tuple[_Pieces, _Render]:
        """Return the block of design 000. If the question names no entity, up to five of the first facts are shown."""
        result = self.result
        entities = result.entities or self._of_first_facts()
        headings, descriptions, links = _Pieces(), _Pieces(), list[_Pieces]()
        for at, entity in enumerate(entities):
            headings.append(_Piece((_ENTITY, at, _HEADING), f"### {_with_type(entity)}", (_source(entity),)))
            if entity.description:
                descriptions.append(_Piece((_ENTITY, at, _DESCRIPTION), _description(entity), (_source(entity),)))
            links.append(list(self._related(at, entity)) if related else [])
        ends = dict.fromkeys(self._entity(source.id) for piece in chain(*links) for source in piece.sources)
        described = [
            _Piece((_ENTITY, at, _HEADING), f"### {_with_type(end)}\n{_description(end)}", (_source(end),))
            for at, end in enumerate((end for end in ends if end.description and end not in entities), len(entities))
        ]
        names = ", ".join(list_item(entity.name) for entity in result.entities)
        head = f"## Knowledge Graph Context\nQuery entities: [{names}]"
        pieces = [*headings, *descriptions, *first, *longer, *_by_turns(others, _by_turns(*links)), *described]
        return pieces, lambda chosen: _blocks(head, *_published_sections(chosen)) if chosen else ""

    def _of_first_facts(self) -> tuple[Entity, ...]:
        ends = dict.fromkeys(self._entity(end) for fact in self.result.facts[:5] for end in fact.entities[:2])
        return tuple(end for end in ends if end.id in self.result.known)[:5]

    def _related(self, at: int, entity: Entity) -> Iterator[_Piece]:
        """Yield the entities that share a fact with an entity: the question's first, then by relation and weight."""
        weights: dict[tuple[str, str], float] = {}  # the largest, by the other entity and the relation
        for fact in self.result.facts:
            ends, relation = [self._entity(end).id for end in fact.entities], fact.relation
            if relation and ends[0] != entity.id:
                relation = inverse(relation, dict(self.result.context_format.inverses))
            for other in ends if entity.id in ends else ():
                if other != entity.id:
                    weights[other, relation] = max(weights.get((other, relation), 0.0), fact.weight)
        named = {other.id for other in self.result.entities}
        with_relation = {other for other, relation in weights if relation}
        strongest = sorted(weights, key=lambda pair: (pair[0] not in named, not pair[1], -weights[pair], pair))
        for place, (other, relation) in enumerate(strongest[:_MAX_RELATED]):
            if relation or other not in with_relation:  # a sentence adds nothing to a relation
                end = self._entity(other)
                label = f"{one_line(relation)}, " * bool(relation) + f"weight: {weights[other, relation]:g}"
                yield _Piece((_ENTITY, at, _RELATED, place), f"{list_item(end.name)} ({label})", (_source(end),))

    # -- facts

    def _facts(self) -> tuple[_Pieces, _Pieces]:
        """Return the facts that join the question's entities with each other or with a hit, and the others."""
        named = {entity.id for entity in self.result.entities}
        on_paths = {step.id for hit in self.result.hits for step in hit.path if step.kind == "fact"}
        lines: dict[int, list[tuple[str, Fact]]] = {0: [], 1: [], 2: []}
        for fact in self.result.facts if self.published else self._new_facts():
            entities = {entity.id: entity.name for entity in map(self._entity, fact.entities)}
            if line := self._fact_line(fact, [*dict.fromkeys(map(list_item, entities.values()))]):
                lines[0 if len(entities.keys() & named) > 1 else 1 if fact.id in on_paths else 2].append((line, fact))
        numbered = enumerate(chain(*lines.values()))
        pieces = [_Piece((_FACT, at), line, _fact_sources(fact)) for at, (line, fact) in numbered]
        joining = len(lines[0]) + len(lines[1])
        return pieces[:joining], pieces[joining:]

    def _new_facts(self) -> Iterator[Fact]:
        """Yield the facts about entities that the question names or a passage is about, which no passage states."""
        hits = self.result.hits
        about = {entity.id for entity in self.result.entities}.union(*(hit.reason.subjects for hit in hits))
        read = {name for hit in hits for name in (hit.chunk.id, *_ids(hit))}
        for fact in self.result.facts:
            is_stated = not fact.relation and fact.chunk_id in read
            if not is_stated and about.intersection(self._entity(name).id for name in fact.entities):
                yield fact

    def _fact_line(self, fact: Fact, ends: Sequence[str]) -> str:
        """Return the line of a fact: a sentence, or a triple with its text; empty if it has one end alone."""
        if len(ends) < 2 and not fact.value:
            return ""
        objects = ", ".join([*ends[1:4], *([one_line(fact.value)] if fact.value else [])])
        text, relation = one_line(fact.text), one_line(fact.relation)
        if self.published:
            triple = " ".join([ends[0], relation, *ends[1:], fact.value])
            label = f'"{relation}"' if _bare(text) == _bare(triple) else f'"{relation}" -- {text}'
            return f"- {ends[0]} -> {objects}: {label if relation else text} (strength: {fact.weight:g})"
        names = [self._entity(name).name for name in fact.entities] + [fact.value]
        if not relation or all(name.casefold() in fact.text.casefold() for name in names):
            return f"- {one_line(fact_words(self.result, fact))}"
        triple = f"- {ends[0]} -> {relation.replace('_', ' ')} -> {objects}"
        return f"{triple}: {text}" if text else triple


def _ids(hit: Hit) -> tuple[str, ...]:
    """Return the ids of the passages around a hit."""
    return hit.expanded.ids if hit.expanded else ()


def _sections(chosen: _Pieces) -> dict[int, list[str]]:
    """Return the texts of each section, both in order of the slots."""
    ordered = groupby(sorted(chosen), key=lambda piece: piece.slot[0])
    return {section: [piece.text for piece in pieces] for section, pieces in ordered}


def _render_graph(chosen: _Pieces) -> str:
    """Return the sections that have pieces; passages alone need no heading."""
    sections = _sections(chosen)
    passages = "\n\n".join(sections.pop(_PASSAGE, ()))
    headings = {_ENTITY: "### Entities", _FACT: "### Facts"}
    parts = ["\n".join([headings[section], *lines]) for section, lines in sections.items()]
    return _blocks(*parts, f"### Passages\n{passages}" if passages and parts else passages)


def _published_sections(chosen: _Pieces) -> Iterator[str]:
    """Yield the sections of the block of design 000, one for each entity."""
    entities = sorted(piece for piece in chosen if piece.slot[0] == _ENTITY)
    for _, pieces in groupby(entities, key=lambda piece: piece.slot[1]):
        parts = groupby(pieces, key=lambda piece: piece.slot[2])
        texts = {part: [piece.text for piece in own] for part, own in parts}
        yield "\n".join(_wrap("Related: ", own) if part == _RELATED else own[0] for part, own in texts.items())
    sections = _sections(chosen)
    if facts := sections.get(_FACT):
        yield "\n".join(["### Relevant Relationships", *facts])
    if passages := sections.get(_PASSAGE):
        yield "### Passages\n" + "\n\n".join(passages)


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


def _blocks(*texts: str) -> str:
    """Join texts with a blank line between them."""
    return "\n\n".join(filter(None, texts))


def _by_turns(*lists: Iterable[_Piece]) -> _Pieces:
    """Return the first piece of each list, then the second of each, and so on."""
    return [piece for row in zip_longest(*lists) for piece in row if piece is not None]


def _bare(text: str) -> list[str]:
    return text.casefold().replace("_", " ").replace(":", " ").split()


def _with_type(entity: Entity, mark: str = "") -> str:
    """Return the name of an entity, between marks such as ``**``, and its type in brackets."""
    name = f"{mark}{one_line(entity.name)}{mark}"
    return f"{name} ({one_line(entity.type)})" if entity.type else name


def _description(entity: Entity) -> str:
    return f"Description: {shortened(entity.description, _MAX_DESCRIPTION)}"


def _source(entity: Entity) -> ContextSource:
    return ContextSource("entity", entity.id, entity.name)


def _fact_sources(fact: Fact) -> tuple[ContextSource, ...]:
    return ContextSource("fact", fact.id, fact.relation), ContextSource("chunk", fact.chunk_id)
