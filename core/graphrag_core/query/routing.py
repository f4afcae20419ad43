"""Routing for the ``agentic`` method: rules that choose a method for a question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from graphrag_core.errors import InputError
from graphrag_core.text import has_cjk

TargetMethod = Literal["hybrid", "vector", "keyword", "graph"]
"""The methods that a rule can choose."""

_TARGETS = get_args(TargetMethod)


@dataclass(frozen=True)
class Rule:
    """Chooses a method if the question contains a cue or matches a pattern.

    ``cues`` are whole words or phrases, case-insensitive; Chinese and Japanese cues match
    anywhere, since there are no spaces. ``patterns`` are regular expressions.
    """

    name: str
    method: TargetMethod
    cues: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.method not in _TARGETS:
            raise InputError(f"rule {self.name!r} has the method {self.method!r}: use one of {', '.join(_TARGETS)}")


_CITATION = (
    "cite cites cited citing citation citations reference references referenced referencing 引用 引文 参考文献 參考文獻"
)
_PAPER = ("arxiv", "paper:", "论文:", "论文：", "論文:", "論文：")
_ARXIV_ID = r"(?<![A-Za-z0-9_.])\d{4}\.\d{4,5}(?:v\d+)?(?![A-Za-z0-9_]|\.\d)"
_DOI = r"(?<![A-Za-z0-9_])10\.\d{4,9}/\S+"
_COMPARISON = "vs versus compare compares compared comparing comparison 比较 比較 对比 對比 区别 區別 差异 差異 相比"
_OVERVIEW = "overview survey summarise summarize überblick übersicht zusammenfassung 综述 綜述 概述 概览 概覽 总结 總結"

RULES: tuple[Rule, ...] = (
    Rule("citation", "graph", tuple(_CITATION.split())),
    Rule("identifier", "keyword", (), (_ARXIV_ID, _DOI)),  # an exact term: an embedding does not tell numbers apart
    Rule("paper", "vector", _PAPER),
    Rule("comparison", "hybrid", (*_COMPARISON.split(), "difference between", "differences between")),
    Rule("overview", "hybrid", tuple(_OVERVIEW.split())),
)
"""The default rules of :class:`Router`, in the order in which they are tried."""


@dataclass(frozen=True)
class Route:
    """The chosen method, the rule that chose it, and the words that matched."""

    method: TargetMethod
    rule: str
    matched: str = ""

    def __str__(self) -> str:
        if not self.matched:
            return f"routed to {self.method}: no rule matched"
        return f"routed to {self.method} by the rule {self.rule!r}: the question has {self.matched!r}"


@dataclass(frozen=True, kw_only=True)
class Router:
    """Applies the first rule that matches; ``otherwise`` if none does.

    >>> str(Router().route("Which papers cite MAGMA?"))
    "routed to graph by the rule 'citation': the question has 'cite'"
    >>> Router().route("Which cities excite you?").rule
    'default'
    """

    rules: tuple[Rule, ...] = RULES
    otherwise: TargetMethod = "hybrid"

    def route(self, question: str) -> Route:
        """Return the route of a question."""
        for rule in self.rules:
            if found := _compiled(rule.cues, rule.patterns).search(question):
                return Route(rule.method, rule.name, found.group())
        return Route(self.otherwise, "default")


@lru_cache(maxsize=256)
def _compiled(cues: tuple[str, ...], patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds cues as whole words, and patterns."""
    parts = []
    for cue in cues:
        is_bounded = not has_cjk(cue)  # not \b: "arXiv上的论文" has no space
        before = r"(?<![A-Za-z0-9_])" if is_bounded and cue[:1].isalnum() else ""
        after = r"(?![A-Za-z0-9_])" if is_bounded and cue[-1:].isalnum() else ""
        parts.append(before + re.escape(cue) + after)
    parts += (f"(?:{pattern})" for pattern in patterns)
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)
