"""Names, facts and cross-references of documents as they are published."""

from __future__ import annotations

import pytest

from graphrag_core import Document, SentenceExtractor
from graphrag_core.extract.subjects import document_address, heading_names, link_addresses
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.model import Chunk
from graphrag_core.text.mentions import code_names
from graphrag_core.text.sentences import is_boilerplate, is_statement


def extracted(text, title="", *, place="guide/page.md", metadata=None):
    chunks = Chunker().split(Document(place, text, title, metadata or {}))
    return chunks, SentenceExtractor().extract(chunks)


def facts(text, title="", **rest):
    return [fact.text for e in extracted(text, title, **rest)[1] for fact in e.facts if not fact.relation]


def names(text, title="", **rest):
    found = [mention.name for e in extracted(text, title, **rest)[1] for mention in e.mentions]
    return [name for name in dict.fromkeys(found) if name[0] != "→"]


def subjects(text, title="", **rest):
    return [[m.name for m in e.mentions if m.subject and m.name[0] != "→"] for e in extracted(text, title, **rest)[1]]


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
    assert is_statement(text)


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
        "this software for any purpose with or without fee is hereby",
        "Permission to use, copy, modify, and distribute this software and its",
        "GET /hub/api/oauth2/authorize",
        "release-date: 2010-07-02 02:30 p.m.",
        "- - - - -",
    ],
)
def test_headings_fragments_and_boilerplate_are_no_facts(text):
    assert not is_statement(text)


@pytest.mark.parametrize("text", ["support for brokers", "Session, Engine and Connection", "Python 3.12"])
def test_an_item_that_only_names_things_is_no_fact(text):
    assert not is_statement(text, whole=False)


def test_the_names_of_licences_are_none():
    text = 'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, TO THE AUTHORS.'
    assert is_boilerplate(text)
    assert names(f"Copyright 1998 Ada Lovelace\n\n{text}\n\nThe licence was written by Grace Hopper.") == [
        "Grace Hopper"
    ]
    assert not is_boilerplate("NASA and the ESA launched the telescope.")


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
        "max_retries | how often a failed task is run again",
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
    ("code", "expected"),
    [
        ("broker_url", ("broker_url",)),
        ("Session.begin()", ("Session.begin", "begin")),
        ("~celery.app.task.Task.retry", ("celery.app.task.Task.retry", "Task.retry", "retry")),
        ("--concurrency=10", ("--concurrency",)),
        ("sqlite3_open_v2()", ("sqlite3_open_v2",)),
        ("task_acks_late = True", ("task_acks_late",)),
        ("retry(countdown=5)", ("retry",)),
        ("CREATE TABLE", ("CREATE TABLE",)),
        ("app.conf", ("app.conf",)),
        ("celeryconfig.py", ()),
        ("/etc/conf.d/celery", ()),
        ("true", ()),
        ("None", ()),
        ("42", ()),
        ("3.11.0", ()),
        ("x", ()),
        ("a + b", ()),
        ("pip install -U celery redis", ()),
        ("$ ls", ("ls",)),
        ("redis://localhost:6379/0", ()),
        ("{'a': 1}", ()),
        ("", ()),
    ],
)
def test_names_in_code_markup(code, expected):
    assert code_names(code) == expected


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


def test_code_blocks_have_no_names_of_their_own():
    assert names("Intro text here.\n\n```\nclass GraphView(Base):\n    New York = other_thing\n```\n") == []
    text = "The `retry_backoff` option exists.\n\n# Other\n\nAn example.\n\n```\nretry_backoff = unknown_thing\n```\n"
    _, extractions = extracted(text)
    assert "retry_backoff" in [m.name for m in extractions[-1].mentions]
    assert "unknown_thing" not in [m.name for e in extractions for m in e.mentions]


# -- subjects


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Visibility timeout", ("Visibility timeout",)),
        ("3.2 Connection pools", ("Connection pools",)),
        ("1. Overview", ()),
        ("What's new", ()),
        ("See also", ()),
        ("Übersicht", ()),
        ("概述", ()),
        ("5.3.0 (2023-06-06)", ()),
        ("Unreleased", ()),
        ("How do I restart it?", ()),
        ("`broker_url`", ("broker_url",)),
        ("Session.begin()", ("Session.begin", "begin")),
        ("int (*xColumnSize)(Fts5Context*, int iCol)", ()),
        ("Canvas: Designing Work-flows", ("Canvas: Designing Work-flows",)),
    ],
)
def test_names_of_headings(heading, expected):
    assert heading_names(heading) == expected


def test_a_chunk_is_about_its_title_and_nearest_heading():
    body = "The visibility timeout tells what happens when a message is not acknowledged in time by the worker. " * 3
    text = f"# Redis\n\n## Visibility timeout\n\n{body}\n\n### Overview\n\n{body}\n"
    assert subjects(text, "Redis") == [["Redis", "Visibility timeout"], ["Redis", "Visibility timeout"]]


def test_titles_that_say_nothing_are_no_subjects():
    assert subjects("Some text is written here.", "Introduction") == [[]]
    assert subjects("Some text is written here.", "1. FC Köln") == [["1. FC Köln"]]


# -- addresses


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, "→guide/tasks"),
        ({"source": "docs/guide/index.html"}, "→docs/guide"),
        ({"url": "https://Example.org/guide/tasks.html?x=1", "source": "a.md"}, "→example.org/guide/tasks"),
        ({"file_path": "C:\\docs\\tasks.rst"}, "→C:/docs/tasks"),
    ],
)
def test_the_address_of_a_document(metadata, expected):
    assert document_address(Chunk("1", "guide/tasks.md", "…", metadata=metadata)) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("canvas.html#chains", ("→docs/guide/canvas#chains",)),
        ("../faq.rst", ("→docs/faq",)),
        ("./index.md", ("→docs/guide",)),
        ("#retry", ("→docs/guide/tasks#retry",)),
        ("guide-retry", ("→#guide-retry", "→docs/guide/guide-retry")),
        ("lazy loading", ("→#lazy loading",)),
        ("/reference/app", ("→docs/guide/reference/app", "→docs/reference/app", "→reference/app")),
        ("mailto:a@example.org", ()),
        ("https://example.org/x/", ("→example.org/x",)),
        ("", ()),
    ],
)
def test_the_addresses_that_a_link_may_mean(target, expected):
    assert link_addresses(Chunk("1", "docs/guide/tasks.md", "…"), target) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("canvas.html#a%20b", ("→example.org/guide/canvas#a b",)),
        ("../faq", ("→example.org/faq",)),
        ("/api/app.html", ("→example.org/api/app",)),
        ("https://EXAMPLE.org/guide/index.html", ("→example.org/guide",)),
        ("caf%C3%A9.html", ("→example.org/guide/café",)),
    ],
)
def test_the_addresses_of_links_on_a_site(target, expected):
    chunk = Chunk("1", "1", "…", metadata={"url": "https://example.org/guide/tasks.html"})
    assert link_addresses(chunk, target) == expected


def test_a_link_in_a_statement_is_a_reference():
    text = "# Tasks\n\nTasks are composed with the primitives of the [canvas guide](canvas.md#chains) of this manual.\n"
    _, (extraction,) = extracted(text, "Tasks")
    (fact,) = [fact for fact in extraction.facts if fact.relation]
    assert (fact.relation, fact.entities, fact.weight) == ("refers_to", ("Tasks", "→guide/canvas#chains"), 10.0)
    assert "→guide/canvas#chains" in [m.name for m in extraction.mentions if not m.subject]
    assert "→guide/page" in [m.name for m in extraction.mentions if m.subject]


def test_links_of_a_menu_are_mentions_and_no_facts():
    text = "# Index\n\n" + "\n".join(f"- [Page {i}](p{i}.md)" for i in range(60))
    _, extractions = extracted(text)
    assert not [fact for e in extractions for fact in e.facts]
    assert all(len([m for m in e.mentions if not m.subject and m.name[0] == "→"]) <= 30 for e in extractions)


def test_every_chunk_of_a_section_has_its_address():
    body = "This sentence is about the pool of connections and how it is recycled by the engine. " * 60
    text = f"# Pools\n\n## Recycling\n\n{body}\n\n## Other\n\nShort text that ends the page.\n"
    chunks, extractions = extracted(text, "Pools")
    held = [[m.name for m in e.mentions if m.subject] for e in extractions]
    of_section = [c.headings == ("Recycling",) for c in chunks]
    assert sum(of_section) > 2
    assert ["→guide/page#recycling" in names_ for names_ in held] == of_section


def test_anchors_and_terms_in_html_are_those_of_the_passage():
    text = (
        '<a id="std-broker_url"></a><dfn>broker_url</dfn>\n\n'
        "The address is explained in the [guide of brokers](brokers) for all transports."
    )
    _, (extraction,) = extracted(text, "Configuration")
    assert [m.name for m in extraction.mentions if m.subject][:2] == ["Configuration", "broker_url"]
    assert "→#std-broker_url" in [m.name for m in extraction.mentions if m.subject]
    assert [f.entities[1:] for f in extraction.facts if f.relation] == [("→#brokers", "→guide/brokers")]


def test_a_sentence_that_begins_with_a_link_has_its_words():
    text = "# Stores\n\nKeyring embedded it. [The notebook](../a.ipynb) has a question that Chroma misses.\n"
    _, (extraction,) = extracted(text, "Stores")
    assert "The notebook has a question that Chroma misses." in [fact.text for fact in extraction.facts]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Chapter 4. A Detailed History", ("A Detailed History",)),
        ("9.10. Backup", ("Backup",)),
        ("A.13. SteamOS", ("SteamOS",)),
        ("Appendix B: Terms of Use", ("Terms of Use",)),
        ("Chapter 4", ()),
        ("24: Legacy", ("24: Legacy",)),
    ],
)
def test_the_number_of_a_title_is_no_part_of_its_name(title, expected):
    mentions = SentenceExtractor().extract([Chunk("1", "1", "It rains.", title=title)])[0].mentions
    assert tuple(mention.name for mention in mentions) == expected


def test_headings_have_no_numbers_and_no_marks_of_a_reply():
    assert heading_names("A.3.1.4 Shared BLAS") == heading_names("B.1 Shared BLAS") == ("Shared BLAS",)
    assert heading_names("Re: Credit line") == ("Credit line",)
    assert heading_names("Section 3.8") == heading_names("Chapter 4") == heading_names("for SMTP input") == ()
    assert heading_names("Copyright considerations 9") == ("Copyright considerations",)
    assert heading_names("Windows 10") == ("Windows 10",)


@pytest.mark.parametrize(
    "text",
    [
        "setNames, 1814 setOldClass, 1209 Shared Library, 12, 14-16",
        "CITATION . . . . . . . . . . . . 18, 83 Rd Format . . . . . . . . . 6",
        "Bourne Shell ........ 12\nKorn Shell ......... 14",
    ],
)
def test_the_lines_of_an_index_have_no_names_and_no_facts(text):
    extraction = SentenceExtractor().extract([Chunk("1", "1", text)])[0]
    assert extraction.mentions == extraction.facts == ()


def test_a_short_form_is_the_person_that_the_document_names_in_full():
    def entities(*texts):
        found = SentenceExtractor().extract([Chunk(str(i), "1", text) for i, text in enumerate(texts)])
        assert all(set(f.entities) <= {m.name for m in e.mentions} for e in found for f in e.facts)
        return [[mention.name for mention in e.mentions] for e in found]

    first = "Bruce Perens wrote the guidelines of the project, and his friends helped."
    assert entities(first, "Later Bruce left the project. Nobody followed Perens.") == [["Bruce Perens"]] * 2
    assert entities(f"{first} Later Bruce left the project.") == [["Bruce Perens"]]
    assert entities("Later Bruce left the project.") == [["Bruce"]]
    assert entities("To: Bruce Perens\n\nDear Bruce, the mill is yours.") == [["Bruce Perens"]]
    assert entities(f"{first} We met Bruce Wayne.", "Later Bruce left.")[1] == ["Bruce"]
    assert entities("We read the Redis Handbook, and his friends asked Redis.") == [["Redis Handbook", "Redis"]]
    assert (
        entities("She likes the Washington Post. Later she left. In Washington she met Washington.")[0][-1]
        == "Washington"
    )
    assert entities("He saw Bruce. Then Bruce Perens left.") == [["Bruce", "Bruce Perens"]]


def test_a_word_with_the_number_of_a_footnote_is_no_name():
    def names(text, page):
        found = SentenceExtractor().extract([Chunk("1", "1", text, page=page)])[0]
        assert all(set(fact.entities) <= {mention.name for mention in found.mentions} for fact in found.facts)
        return [mention.name for mention in found.mentions]

    text = "Some compilers know platforms80 and atan2. Other platforms need the Macro Archive27. See the Archive."
    text += "\n4 Calling it is fine."
    assert names(text, 3) == ["atan2", "Archive"]
    assert names(text, None) == ["platforms80", "atan2", "Macro Archive27", "Archive", "4 Calling"]
