"""``Result``: what a query returned, and as text: prompt context, a report, a page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from graphrag_core.context.context import Context, write_context
from graphrag_core.context.display import Highlighter, HitText, citation, hit_texts, uncovered_words
from graphrag_core.context.escape import one_line
from graphrag_core.context.retrieved import (
    CONFIDENCE_WITHOUT_GRAPH,
    SIGNALS,
    Channel,
    Explanation,
    Hit,
    Lazy,
    Link,
    LinkKind,
    Origin,
    Reason,
    Remarks,
    Retrieved,
    Signal,
    Step,
    Trace,
    joined_hits,
)
from graphrag_core.context.settings import Style
from graphrag_core.text import Tokenizer

__all__ = [
    "CONFIDENCE_WITHOUT_GRAPH",
    "SIGNALS",
    "Channel",
    "Explanation",
    "Hit",
    "Lazy",
    "Link",
    "LinkKind",
    "Origin",
    "Reason",
    "Remarks",
    "Result",
    "Signal",
    "Step",
    "Trace",
    "joined_hits",
]

_SNIPPET = 240  # characters


@dataclass(frozen=True, slots=True)
class Result(Retrieved):
    """The passages for a question, best first, and how they were found.

    Why they were found is computed when it is first read, from the index as it is then: the paths, words and links of
    hits, :attr:`facts`, :attr:`known` and :attr:`uncovered`. After the index is closed this raises
    :class:`~graphrag_core.errors.IndexClosed`: ``retrieve(..., explain=True)`` computes it at once.

    Attributes
    ----------
    method
        The method that ran.
    entities
        The entities that the question names, within the scope; of a follow-up question also those that it takes over
        from the conversation. Only the hybrid and the graph method look for them, and not with ``use_graph=False``.
    confidence
        How far the graph can be trusted with this question, from 0 to 1; None if the gate does not use it.
    route
        Which rule of the ``agentic`` method chose the method, and why; empty otherwise.
    trace
        How long each stage took.
    graph_ran
        Whether the graph was searched. False with ``use_graph=False``, for the methods ``vector`` and
        ``keyword``, and where the gate skipped it.
    scores_are_probabilities
        Whether the score of a hit is the probability that it belongs to the answer. It is for the method ``hybrid``
        with the default reranker.
    embedder_failed
        Whether vector search is missing because the embedder failed (``on_embedder_error="keyword"``). ``fallback``
        says how.
    is_complete
        Whether nothing was unavailable. Else :attr:`fallback` says what was, and the result is not cached.
    generation
        The number of changes of the index that the question saw.
    context_format
        The defaults of :meth:`context`, from the settings of the question.
    remarks, explanation
        From which the attributes below are read; written and computed when they are first read.
    """

    def context(
        self,
        max_tokens: int | None = None,
        *,
        style: Style | None = None,
        tokenizer: Tokenizer | None = None,
        include_relationships: bool | None = None,
        include_sources: bool = True,
        numbered: bool = False,
    ) -> Context:
        """Return the result as prompt text for a language model.

        Parameters
        ----------
        max_tokens
            The budget; by default ``context.max_tokens`` of the settings, or 500. It is never exceeded: an
            item that does not fit is skipped; if none fits, the first passage is cut.
        style
            By default ``context.style`` of the settings, or ``"graph"``: what is known about the question's entities,
            facts about them and about the subjects of the passages that no passage states, and the passages in the
            order of the hits, numbered for citations. ``"passages"``: the passages with scores and sources.
            ``"both"``: these passages, then the entities and facts, which take at most 500 tokens and half of the
            budget. ``"narrative"``: facts grouped by subject, the user's own first, else in order of relevance; the
            least relevant are left out. Without facts, or where the graph was not used, passages are written. A
            passage that does not fit is shortened to the sentences that match the question best. The published
            designs have the block "Knowledge Graph Context" in place of entities and facts.
        tokenizer
            Counts tokens: a function from a text to a number, or the name of an encoding or a model that tiktoken
            knows, such as ``"o200k_base"``, which tiktoken downloads if it is not in its cache. By default tiktoken's
            ``cl100k_base`` if its file is on this machine, as it is where LlamaIndex is installed; otherwise an
            estimate that is not below it, and 1.4 times as high on English prose.
        include_relationships
            False leaves facts out of the styles ``"graph"`` and ``"both"``; True also lists them in the ``"passages"``
            style. None is the style's own: none among passages. A narrative consists of facts and has them always.
        include_sources
            False leaves the names of the passages out of the text, and passages and facts out of ``sources``.
        numbered
            True starts each passage of the ``"passages"`` style with its rank in brackets, for citations, instead of
            its score. The ``"graph"`` style always does.

        Returns
        -------
        Context
            A ``str`` with ``tokens`` and ``sources``.
        """
        return write_context(
            replace(self, hits=joined_hits(self.hits)),
            ranks={hit.chunk.id: rank for rank, hit in enumerate(self.hits, 1)},
            max_tokens=self.context_format.max_tokens or 500 if max_tokens is None else max_tokens,
            style=style or self.context_format.style or "graph",
            tokenizer=tokenizer,
            include_relationships=include_relationships,
            include_sources=include_sources,
            numbered=numbered,
        )

    def explain(self) -> str:
        """Return a report as plain text: what decided, and for each hit why it was found.

        Each hit has its score, its rank in each search, the sentences that match the question best, the path through
        the graph that leads to it, its link to a better hit, and the words of the question that no better hit has.
        """
        named = ", ".join(one_line(entity.name) for entity in self.entities) or "no known entity"
        confidence = "" if self.confidence is None else f", confidence {self.confidence:.2f}"
        lines = [one_line(self.question), f"  entities: {named}; method {self.method}{confidence}"]
        remarks = (self.route, self.decided, self.fallback, uncovered_words(self), self.advice)
        lines += [f"  {one_line(remark)}" for remark in remarks if remark]
        texts = Highlighter(self)
        for shown in hit_texts(self):
            lines += _hit_lines(shown, texts)
        stages = ", ".join(f"{name} {ms:.1f}" for name, ms in self.trace.stages.items())
        return "\n".join([*lines, f"  {self.trace.total:.1f} ms: {stages}"])

    def html(self) -> str:
        """Return a self-contained page: the question, the graph around the answer and the reason for each hit.

        The page needs no network, and text from documents cannot run in it.
        """
        from graphrag_apps.page.page import page  # noqa: PLC0415 - Jinja is slow to import, and few need pages

        return page(self)

    def show(self, path: str | Path | None = None, *, browser: bool = False) -> Path | None:
        """Display the page in a notebook; elsewhere write it to a file and return the path.

        Parameters
        ----------
        path
            The file to write, also in a notebook. By default, outside a notebook, a new temporary
            file whose name is printed on stderr.
        browser
            True opens the file in a browser.
        """
        from graphrag_apps.page.page import show  # noqa: PLC0415 - Jinja is slow to import, and few need pages

        return show(self, path, browser=browser)

    def _repr_html_(self) -> str:
        from graphrag_apps.page.page import frame  # noqa: PLC0415 - Jinja is slow to import, and few need pages

        return frame(self, self.explain())


def _hit_lines(shown: HitText, texts: Highlighter) -> list[str]:
    """Return the lines of a report about a hit."""
    hit = shown.hit
    found = ", ".join(f"{name} #{channel.rank}{_score(channel)}" for name, channel in hit.channels.items())
    path = " → ".join(one_line(step.text) for step in shown.path)
    reason = f"{path} → this passage" if path else shown.found
    expansion = hit.graph_expansion and f"by the query '{one_line(hit.graph_expansion)}'"
    more = (
        one_line(texts.snippet(hit, _SNIPPET)),
        "; ".join(filter(None, (reason, expansion, one_line("".join(shown.link))))),
        one_line(shown.covers),
    )
    head = f"{shown.rank:>3}. {one_line(citation(hit.chunk))}  [{hit.score:.3f}]  {found}"
    return [head, *(f"     {line}" for line in more if line)]


def _score(channel: Channel) -> str:
    """Return the score of a channel; empty for a negative one, which is a logarithm."""
    return f" ({channel.score:.3g})" if channel.score >= 0 else ""
