"""Names, facts and cross-references of documents as they are published."""

from __future__ import annotations

import pytest

from graphrag_core import Chunker, Document, SentenceExtractor


def extracted(text, title=""):
    chunks = Chunker().split(Document("guide/page.md", text, title))
    return chunks, SentenceExtractor().extract(chunks)


def facts(text, title=""):
    return [fact.text for e in extracted(text, title)[1] for fact in e.facts if not fact.relation]


def names(text, title=""):
    found = [mention.name for e in extracted(text, title)[1] for mention in e.mentions]
    return [name for name in dict.fromkeys(found) if name[0] != "→"]


def subjects(text, title=""):
    return [[m.name for m in e.mentions if m.subject and m.name[0] != "→"] for e in extracted(text, title)[1]]


# -- facts


@pytest.mark.parametrize(
    "text",
    [
        "The worker acknowledges a task after it was executed.",
        "Redis requires Python.",
        "He died in 1911.",
        "It defines the visibility timeout in seconds",
        "Changed in version 5.7: You can also pass link and link_error to chord.apply_async().",
        "If you read this section twice, the pool is recycled because the connection was closed by the server.",
        "开放授权提供商与钥匙环公司通信。",
        "Der Dienst stellt Tokens für alle Anwendungen aus.",
        "This option is enabled by default.",
    ],
)
def test_a_sentence_that_says_something_is_a_fact(text):
    assert facts(text)


@pytest.mark.parametrize(
    "text",
    [
        "Usage:",
        "For example:",
        "The following options are available:",
        "orm",
        "[orm] [bug]",
        "Added in version 3.1",
        "New in version 2.0.",
        "Deprecated since version 1.4.",
        "See the tutorial.",
        "See also Canvas for more.",
        "For more information, visit the website.",
        "Siehe auch Kapitel zwei.",
        "参见",
        "Copyright (c) 2009-2016 Ask Solem & contributors.",
        "SPDX-License-Identifier: MIT",
        "Redis, RabbitMQ, Amazon SQS",
        "1. Introduction ........ 5",
        "Last updated on March 3.",
        "foo(a, b) == {x: [1, 2]} && y->z;",
        "cpan/autodie/lib/autodie/exception.pm cpan/autodie/lib/Fatal.pm t/a.t",
        "GET /hub/api/oauth2/authorize",
        "release-date: 2010-07-02 02:30 p.m.",
        "- - - - -",
    ],
)
def test_headings_fragments_and_boilerplate_are_no_facts(text):
    assert not facts(text)


MARKDOWN = """# Tasks

## Retrying

A task is **retried** with [`Task.retry()`](tasks.md#retry) after `retry_backoff` seconds.
See [Canvas](canvas.md).

```python
class Fictional(Base):
    retry_backoff = Other.Thing.here
```

| option | meaning |
|---|---|
| `max_retries` | how often a failed task is run again |
| `name` | str |

- Added support for Redis Streams.
- orm
"""


def test_facts_come_from_prose_without_markup():
    assert facts(MARKDOWN) == [
        "A task is retried with Task.retry() after retry_backoff seconds.",
        "Added support for Redis Streams.",
    ]


def test_a_fact_knows_its_place_in_the_chunk():
    chunks, extractions = extracted(MARKDOWN)
    chunk, extraction = next((c, e) for c, e in zip(chunks, extractions, strict=True) if e.facts)
    start, end = extraction.facts[0].span
    assert chunk.text[start:end].startswith("A task is **retried**")
    assert chunk.text[start:end].endswith("seconds.")


def test_wrapped_lines_and_divided_words_are_one_sentence():
    text = (
        "SSH(1)\n\nDESCRIPTION\n     When the user's identity has been accepted by the server, the server ei‐\n"
        "     ther executes the given command in a non-interactive session.\n"
    )
    (fact,) = facts(text, "ssh")
    assert "the server either executes the given command in a non-interactive session." in fact


def test_a_definition_is_a_fact_about_its_term():
    text = "# Settings\n\n`broker_url`\n: The address of the broker.\n\nfacade\n: An object that hides another."
    _, extractions = extracted(text, "Settings")
    found = [fact for e in extractions for fact in e.facts]
    assert [fact.text for fact in found] == [
        "broker_url: The address of the broker.",
        "facade: An object that hides another.",
    ]
    assert "broker_url" in found[0].entities
    assert "facade" in found[1].entities
    assert "broker_url" not in found[1].entities
    assert {"broker_url", "facade"} <= {m.name for e in extractions for m in e.mentions if m.subject}


# -- names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Set ``a_b`` (e.g ``c_d``) -- used by ``e_f``.", ["a_b", "c_d", "e_f"]),
        ("- Added Redis Streams.\n- Fixed a bug.\n- Don't panic.", ["Redis Streams"]),
        ("It is True or False, never None (See below). Note: Use the Session.", ["Session"]),
        ("It returns SQLITE_OK.", ["SQLITE_OK"]),
        ("Sort with ORDER BY here.", ["ORDER BY"]),
        (
            "Der Dienst ruft an. Wenn er nicht antwortet, ist das ein Fehler. Die Ursache ist Redis.",
            ["Dienst", "Fehler", "Ursache", "Redis"],
        ),
        ("Les jetons sont dans la base. Une erreur est visible. Dans Paris, il pleut.", ["Paris"]),
        ("Die Hard is a film about the tower.", ["Die Hard"]),
        ("He said ``Born to Run'' and ``War and Peace'' were his.", ["Born to Run", "War and Peace"]),
        ("[Foo Bar](https://example.org/Some_Page) and <b>Baz Qux</b> agree.", ["Foo Bar", "Baz Qux"]),
    ],
)
def test_names_in_documentation(text, expected):
    assert names(text) == expected


# -- subjects


def test_a_chunk_is_about_its_title_and_nearest_heading():
    body = "The visibility timeout tells what happens when a message is not acknowledged in time by the worker. " * 3
    text = f"# Redis\n\n## Visibility timeout\n\n{body}\n\n### Overview\n\n{body}\n"
    assert subjects(text, "Redis") == [["Redis", "Visibility timeout"], ["Redis", "Visibility timeout"]]


# -- addresses


def test_a_link_in_a_statement_is_a_reference():
    text = "# Tasks\n\nTasks are composed with the primitives of the [canvas guide](canvas.md#chains) of this manual.\n"
    _, (extraction,) = extracted(text, "Tasks")
    (fact,) = [fact for fact in extraction.facts if fact.relation]
    assert (fact.relation, fact.entities, fact.weight) == ("refers_to", ("Tasks", "→guide/canvas#chains"), 10.0)
    assert "→guide/canvas#chains" in [m.name for m in extraction.mentions if not m.subject]
    assert "→guide/page" in [m.name for m in extraction.mentions if m.subject]


def test_every_chunk_of_a_section_has_its_address():
    body = "This sentence is about the pool of connections and how it is recycled by the engine. " * 60
    text = f"# Pools\n\n## Recycling\n\n{body}\n\n## Other\n\nShort text that ends the page.\n"
    chunks, extractions = extracted(text, "Pools")
    held = [[m.name for m in e.mentions if m.subject] for e in extractions]
    of_section = [c.headings == ("Recycling",) for c in chunks]
    assert sum(of_section) > 2
    assert ["→guide/page#recycling" in names_ for names_ in held] == of_section
