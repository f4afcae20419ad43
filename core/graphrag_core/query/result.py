"""What a question gets back: passages, with the reason for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphrag_core.model import Entity, Fact
from graphrag_core.ports import TokenCounter
from graphrag_core.query import drawing
from graphrag_core.query.context import Context, Material, Style, write_context
from graphrag_core.query.context.safe import one_line
from graphrag_core.query.hit import Hit, Trace


@dataclass(frozen=True, slots=True)
class Result:
    """The passages for a question, best first, and how they were found.

    Attributes
    ----------
    method
        The method that ran.
    entities
        What the question names, as far as the scope knows it.
    confidence
        How far the graph can be trusted with this question, from 0 to 1.
    facts
        The facts that speak for the answer, the most telling first: those on the hits'
        paths, then others that hold what the question names.
    known
        Every entity that ``facts`` and the hits' paths speak of, by id.
    route
        Which rule of the ``agentic`` method chose the method, and why; empty otherwise.
    expansion_skipped
        Why the graph did not lead or did not run, in words; empty if it did.
    fallback
        What had to be done without, in words; empty if nothing.
    """

    question: str
    method: str
    hits: tuple[Hit, ...] = ()
    entities: tuple[Entity, ...] = ()
    confidence: float = 0.5
    facts: tuple[Fact, ...] = ()
    known: Mapping[str, Entity] = field(default_factory=dict)
    route: str = ""
    expansion_skipped: str = ""
    fallback: str = ""
    trace: Trace = field(default_factory=Trace)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def context(
        self,
        max_tokens: int = 500,
        *,
        style: Style = "graph",
        count: TokenCounter | None = None,
        organise: bool = False,
    ) -> Context:
        """Return what was found as text for a language model.

        Parameters
        ----------
        max_tokens
            The budget. It is never exceeded: what does not fit is left out, item by item,
            the least useful first.
        style
            ``"graph"``: the entities of the question, what they are related to, and the
            relationships that matter. ``"passages"``: the passages with scores and sources.
            ``"narrative"``: facts by subject, the user's own first. Where the graph has
            nothing to say, passages are written.
        count
            What counts tokens: yours; else tiktoken, if its encoding is on this disk; else
            an estimate, which lies a few percent above on English prose.
        organise
            True arranges the passages of that style along a spanning tree of the result's facts,
            so that what hangs together stands together.

        Returns
        -------
        Context
            A ``str`` with ``tokens`` and ``sources``.
        """
        material = Material(self.entities, self.known, self.facts, self.hits)
        return write_context(material, max_tokens=max_tokens, style=style, count=count, organise=organise)

    def explain(self) -> str:
        """Return for a person what was found, by which channel and along which path."""
        named = ", ".join(one_line(entity.name) for entity in self.entities) or "nothing the index knows"
        lines = [one_line(self.question), f"  names {named}; method {self.method}, confidence {self.confidence:.2f}"]
        lines += [f"  {remark}" for remark in (self.route, self.expansion_skipped, self.fallback) if remark]
        for rank, hit in enumerate(self.hits, 1):
            found = ", ".join(
                f"{name} #{channel.rank} ({channel.score:.3g}, {channel.share:.0%})"
                for name, channel in hit.channels.items()
            )
            lines.append(f"{rank:>3}. {one_line(hit.chunk.title or hit.chunk.id)}  [{hit.score:.3f}]  {found}")
            if hit.path:
                lines.append(f"     {' → '.join(one_line(step.text) for step in hit.path[1:])}")
        stages = ", ".join(f"{name} {ms:.1f}" for name, ms in self.trace.stages.items())
        return "\n".join([*lines, f"  {self.trace.total:.1f} ms: {stages}"])

    def html(self) -> str:
        """Return one self-contained page: the question, the graph around the answer, and each hit's reason.

        It asks the network for nothing, and nothing that a document says can run in it.
        """
        return drawing.page(self)

    def show(self, path: str | Path | None = None, *, browser: bool = False) -> Path | None:
        """Display the page in a notebook; anywhere else write it to a file and return where.

        Parameters
        ----------
        path
            The file to write, in a notebook too. Left out, outside a notebook, it is a new
            temporary file, and a line on stderr says which.
        browser
            True opens the file in the browser.
        """
        return drawing.show(self, path, browser=browser)

    def _repr_html_(self) -> str:
        return drawing.frame(self, self.explain())
