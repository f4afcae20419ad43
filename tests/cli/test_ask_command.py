"""``ask`` and ``communities``: what they print, their options, and errors of a language model."""

from __future__ import annotations

import json

import pytest
from model_server import StreamServer

QUESTION = "Who does the Auth Service delegate to?"


@pytest.fixture
def server():
    with StreamServer() as running:
        yield running


def test_without_a_model_sentences_are_printed_with_their_sources_and_said_to_be_that(run, indexed):
    result = run("ask", QUESTION, "--kb", indexed)
    assert result.exit_code == 0
    assert "[1] Auth Service  auth-service.md" in result.stdout
    assert result.stdout.startswith("What comes nearest in these documents:\n- ")
    assert "Sentences of the documents: a language model, named with --llm" in result.stdout


def test_a_foreign_question_exits_with_1_and_no_model_is_called(run, indexed, server):
    question = "Which painter restored seventeen baroque altarpieces?"
    result = run("ask", question, "--kb", indexed, "--llm", f"{server.url}/tiny")
    assert result.exit_code == 1
    assert result.stdout == "Nothing in these documents comes near the question.\n"
    assert server.bodies == []
    assert json.loads(run("ask", question, "--kb", indexed, "--json").stdout)["kind"] == "none"


def test_a_model_streams_and_its_citations_are_listed(run, indexed, server):
    result = run("ask", QUESTION, "--kb", indexed, "--llm", f"{server.url}/tiny", "-k", 3)
    assert result.exit_code == 0
    assert result.stdout.startswith("It delegates to the OAuth Provider [1].\n\n[1] Auth Service  auth-service.md\n")
    assert "Sentences of the documents" not in result.stdout
    assert server.bodies[0]["model"] == "tiny"


def test_what_is_wrong_with_an_answer_is_said(run, indexed, server):
    server.pieces = ["Nobody knows."]
    assert (
        "Not supported: tiny cites no passage"
        in run("ask", QUESTION, "--kb", indexed, "--llm", f"{server.url}/tiny").stdout
    )
    server.pieces = ["See [1] and [42]."]
    unknown = run("ask", QUESTION, "--kb", indexed, "--llm", f"{server.url}/tiny").stdout
    assert "See [1] and [42?]." in unknown
    assert "do not exist, marked with a question mark: 42." in unknown
    server.pieces = ["NOT IN THE ", "DOCUMENTS"]
    none = run("ask", QUESTION, "--kb", indexed, "--llm", f"{server.url}/tiny")
    assert none.exit_code == 1
    assert "The documents do not contain the answer." in none.stdout


def test_escape_sequences_of_a_model_do_not_reach_the_terminal(run, indexed, server):
    server.pieces = ["\x1b]0;title\x07evil \x1b[31m[1]"]
    assert "\x1b" not in run("ask", QUESTION, "--kb", indexed, "--llm", f"{server.url}/tiny").stdout


def test_json_has_the_answer_and_its_citations(run, indexed, server):
    answer = json.loads(run("ask", QUESTION, "--kb", indexed, "--json", "--llm", f"{server.url}/tiny").stdout)
    assert answer["text"] == "It delegates to the OAuth Provider [1]."
    assert (answer["kind"], answer["cited"], answer["model"]) == ("llm", True, "tiny")
    assert answer["citations"][0]["document_id"] == "auth-service.md"
    assert json.loads(run("ask", QUESTION, "--kb", indexed, "--json").stdout)["kind"] == "extract"


def test_communities_are_listed_and_as_json(run, indexed):
    shown = run("graph", "communities", "--kb", indexed)
    assert shown.exit_code == 0
    assert " entities" in shown.stdout
    listed = json.loads(run("graph", "communities", "--kb", indexed, "--json", "--limit", 2).stdout)
    assert len(listed) == 2
    assert listed[0]["entities"] == len(listed[0]["members"])
    nothing = run("graph", "communities", "--kb", indexed, "--filter", "team=nobody")
    assert nothing.exit_code == 1
    assert "no themes" in nothing.stderr
