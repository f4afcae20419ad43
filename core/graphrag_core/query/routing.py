"""Routing for the ``agentic`` method: rules that choose a method for a question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from graphrag_core.errors import InputError
from graphrag_core.text import has_cjk

TargetMethod = Literal["hybrid", "vector", "keyword", "graph", "global"]
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

    def match(self, question: str) -> str:
        """Return the part of the question that matches; empty if none does."""
        found = _compiled(self.cues, self.patterns).search(question)
        return found.group() if found else ""


_CITATION = (
    "cite cites cited citing citation citations reference references referenced referencing 引用 引文 参考文献 參考文獻"
)
_PAPER = ("arxiv", "paper:", "论文:", "论文：", "論文:", "論文：")
_ARXIV_ID = r"(?<![A-Za-z0-9_.])\d{4}\.\d{4,5}(?:v\d+)?(?![A-Za-z0-9_]|\.\d)"
_DOI = r"(?<![A-Za-z0-9_])10\.\d{4,9}/\S+"
_COMPARISON = "vs versus compare compares compared comparing comparison 比较 比較 对比 對比 区别 區別 差异 差異 相比"
_COLLECTION = (
    "overview", "summarise", "summarize", "big picture", "main themes", "main topics", "key themes", "key topics",
    "central themes", "overall themes", "which themes", "what themes", "which topics", "what topics",
    "most important topics",
    "überblick", "übersicht", "zusammenfassung", "hauptthemen", "wichtigsten themen", "welche themen",
    "概述", "概览", "概覽", "总结", "總結", "主要主题", "主要主題", "主要内容", "主要內容", "哪些主题", "哪些主題",
)  # fmt: skip
_THINGS = r"collection|corpus|documents?|knowledge base|data ?set|archive|library|files|texts|notes|index"
_COVERS = "(?:about|cover|contain|discuss|deal with)"
_ABOUT = (
    rf"\bwhat (?:is|are|does|do) (?:this|these|the|my|our|all) (?:whole |entire )?(?:{_THINGS})(?: all)? {_COVERS}",
    r"\b(?:worum|wovon) (?:geht es|handel[nt]) .*\b(?:sammlung|dokumente?n?|texte?n?|korpus|archiv)",
    r"\bfass\w* .*\bzusammen\b",
    r"(?:这些|這些|这个|這個|本)(?:文档|文檔|文件|资料|資料|集合|文集)\S*(?:讲|講|关于|關於|内容|內容|主题|主題)",
)
_OVERVIEW = "survey 综述 綜述"

RULES: tuple[Rule, ...] = (
    Rule("citation", "graph", tuple(_CITATION.split())),
    Rule("identifier", "keyword", (), (_ARXIV_ID, _DOI)),  # an exact term: an embedding does not tell numbers apart
    Rule("paper", "vector", _PAPER),
    Rule("comparison", "hybrid", (*_COMPARISON.split(), "difference between", "differences between")),
    Rule("collection", "global", _COLLECTION, _ABOUT),
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
            if matched := rule.match(question):
                return Route(rule.method, rule.name, matched)
        return Route(self.otherwise, "default")


_GENERIC = re.compile(
    r"\b(?:main|key|central|overall|major|important|most|big|picture|themes?|topics?|subjects?|collections?|corpus|documents?"
    r"|document|texts?|files?|notes?|dataset|data set|archive|library|index|knowledge base|overview|summar\w+|survey"
    r"|whole|entire|all|about|cover\w*|contain\w*|discuss\w*|deals?|give|gist|content|contents|short|brief\w*"
    r"|haupt\w*|wichtig\w*|themen?|sammlung|dokumente?n?|texte?n?|überblick|übersicht|zusammenfassung|fass\w*|zusammen"
    r"|worum|wovon|geht|handel\w*|inhalt\w*|gib|kurz\w*|was|sind|ist|die|der|das|den|dem|des|im|über|mir|einen?|eine[rs]?"
    r"|diese[rnms]?|ganzen?|gesamten?|bitte|es|um|von|für|und|welche[rns]?|alle[rnms]?|meine[rnms]?|unsere[rnms]?)\b"
    r"|概述|概览|概覽|总结|總結|主要|主题|主題|内容|內容|哪些|这些|這些|这个|這個|文档|文檔|文件|资料|資料|集合|文集"
    r"|关于|關於|什么|什麼|是|的|讲|講|一下|请|請",
    re.IGNORECASE,
)


def specific_words(question: str) -> str:
    """Return a question without the words that only ask for an overview of a collection.

    >>> specific_words("What are the main themes of the documents about task queues?").split()[-2:]
    ['task', 'queues?']
    """
    return " ".join(_GENERIC.sub(" ", question).split())


@lru_cache(maxsize=256)
def _compiled(cues: tuple[str, ...], patterns: tuple[str, ...]) -> re.Pattern[str]:
    parts = [*(_bounded(cue) for cue in cues), *(f"(?:{pattern})" for pattern in patterns)]
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)


def _bounded(cue: str) -> str:
    """Return a pattern that matches a cue as a whole word."""
    if has_cjk(cue):
        return re.escape(cue)
    before = r"(?<![A-Za-z0-9_])" if cue[:1].isalnum() else ""  # not \\b: "arXiv上的论文" has no space
    after = r"(?![A-Za-z0-9_])" if cue[-1:].isalnum() else ""
    return before + re.escape(cue) + after
