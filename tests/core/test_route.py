"""Which questions go where, and who says so."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.strategies import Router, Rule
from graphrag_core.testing import HashEmbedder


@pytest.mark.parametrize(
    ("question", "method", "rule"),
    [
        ("Which papers cite MAGMA?", "graph", "citation"),
        ("Where is it referenced?", "graph", "citation"),
        ("What is arXiv 2501.03236 about?", "keyword", "identifier"),
        ("2501.03236", "keyword", "identifier"),
        ("paper: MAGMA Memory", "vector", "paper"),
        ("LangGraph vs CrewAI", "hybrid", "comparison"),
        ("Compare the two gateways", "hybrid", "comparison"),
        ("An overview of orchestration", "hybrid", "overview"),
        ("a survey of memory systems", "hybrid", "overview"),
        ("multi-agent timeout mechanisms", "hybrid", "default"),
        ("哪些论文引用了它？", "graph", "citation"),
        ("LangGraph 和 CrewAI 的区别", "hybrid", "comparison"),
        ("arXiv上的论文", "vector", "paper"),
        ("2501.03236是什么", "keyword", "identifier"),
        ("Summarise 2501.03236v2.", "keyword", "identifier"),
        ("What says 10.1145/1571941.1572114?", "keyword", "identifier"),
        ("compare一下", "hybrid", "comparison"),
        ("兩者比較", "hybrid", "comparison"),
        ("记忆系统综述", "hybrid", "overview"),
        # A rule that comes first wins: this has a citation word and a comparison.
        ("compare what they cite", "graph", "citation"),
    ],
)
def test_a_question_goes_by_the_first_rule_that_fires(question, method, rule):
    route = Router().route(question)
    assert (route.method, route.rule) == (method, rule)


@pytest.mark.parametrize(
    "question",
    ["Which cities excite you?", "the canvas of Evsey", "preferences", "surveyor", "Paper planes", "12501.032361"],
)
def test_cues_are_whole_words(question):
    assert Router().route(question).rule == "default"


def test_the_result_names_the_rule_that_fired():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Ada Lovelace cites Charles Babbage."), Document("b", "Other words.")])
        retriever = GraphRetriever(index, method="agentic")
        result = retriever.retrieve("Whom does Ada Lovelace cite?")
        assert result.method == "graph"
        assert result.route == "routed to graph by the rule 'citation': the question has 'cite'"
        assert result.route in result.explain()
        assert retriever.retrieve("Ada Lovelace?").route == "routed to hybrid: no rule matched"
        assert retriever.retrieve("Ada Lovelace?", method="vector").route == ""


def test_rules_are_data_that_a_user_replaces():
    router = Router(rules=(Rule("tickets", "keyword", ("ticket",), (r"\bINC-\d+",)),), otherwise="vector")
    assert router.route("What was INC-2041?").method == "keyword"
    assert router.route("which papers cite it").method == "vector"
    with pytest.raises(InputError, match="magic"):
        Rule("x", "magic")
