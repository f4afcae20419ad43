"""What is a name is decided inside its source, and pieces of a source are decided together."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core import Chunk, Chunker, Document, GraphRetriever, KnowledgeIndex, SentenceExtractor
from graphrag_core.embedders import WordLlama


def names(*texts, title="", metadata=None):
    """Return the names of pieces of one source, or of one document, for each piece."""
    given = metadata or [{"source": "guide.md"}] * len(texts)
    documents = [Document(f"p{i}", text, title, given[i]) for i, text in enumerate(texts)]
    chunks = [chunk for document in documents for chunk in Chunker(long_only=True).split(document)]
    found = SentenceExtractor().extract(chunks)
    return [[mention.name for mention in one.mentions if mention.name[0] != "→"] for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the uses of the source decide
        ("We opened a Session. The session ended, and no session was left.", []),
        ("We asked the Session. A session ended. They trust the Session.", ["Session"]),
        ("They run SELECT. You select one, select two, select three and select four.", []),
        ("They run SELECT and select one.", ["SELECT"]),
        # a word that opens a sentence
        ("Redis wins. They chose Redis.", ["Redis"]),
        ("Redis is fast.", ["Redis"]),
        ("Redis keeps the sessions.", ["Redis"]),
        ("Caches are fast, and caches help.", []),
        ("Sessions expire after a day.", []),
        ("Deduplicating takes long.", []),
        # where the uses say nothing, the dictionary decides
        ("The kinds of errors: Permanent [Temporary failures], then Xyzzy.", ["Xyzzy"]),
        ("Shown in the label: Congress.", ["Congress"]),
        # an ordinary word before a name that opens a sentence is no part of it
        ("Review the PR before it is merged.", ["PR"]),
        ("Hop on IRC and ask.", ["IRC"]),
        ("They asked the Bank of England. Bank of England officials left.", ["Bank of England"]),
        ("Lake George is deep.", ["Lake George"]),
        # a menu is no name
        ("Open Settings General Accessibility Learn Menu Screen Try Now Learn on the screen.", []),
    ],
)
def test_a_name_is_decided_by_the_uses_of_its_source(text, expected):
    assert list(dict.fromkeys(names(text)[0])) == expected


def test_names_of_several_words_are_found_in_lower_case():
    (found,) = SentenceExtractor().extract([Chunk("1", "1", "Ask the Auth Service. The auth service answers slowly.")])
    assert [fact.entities for fact in found.facts] == [("Auth Service",), ("Auth Service",)]


def test_chinese_names_are_found_inside_sentences():
    text = "《开放授权提供商》很有名。钥匙环公司与开放授权提供商通信。"
    (found,) = SentenceExtractor().extract([Chunk("1", "1", text)])
    assert "开放授权提供商" in found.facts[-1].entities


def test_other_documents_never_change_the_names_of_one():
    text = "The auth service answers. Redis keeps it."
    alone = SentenceExtractor().extract([Chunk("1", "1", text)])
    others = [Chunk("2", "2", "The Auth Service of redis, the redis."), Chunk("3", "3", "No redis and no Redis.")]
    assert SentenceExtractor().extract([*others, Chunk("1", "1", text)])[-1] == alone[0]


# -- headings


def test_a_heading_is_a_name_if_the_text_speaks_of_it():
    body = "The visibility timeout is long. "
    assert names(f"# Broker\n\n## Visibility timeout\n\n{body}")[0] == ["Broker", "Visibility timeout"]


# -- pieces of one source


def test_pieces_of_one_source_are_decided_together():
    assert names("Redis wins.", "They chose Redis, again.") == [["Redis"], ["Redis"]]
    assert names("They chose a Session.", "One session, two sessions, a session.") == [[], []]


def test_pieces_get_the_title_of_their_source():
    pieces = ("# Celery tasks\n\nIntro.", "A task is retried.", "## States\n\nIt ends.", "# Celery states\n\nMany.")
    index = KnowledgeIndex(WordLlama(), chunker=Chunker(long_only=True), progress=False)
    index.add([Document(f"p{i}", text, metadata={"source": "tasks.rst"}) for i, text in enumerate(pieces)])
    found = [index.chunks(f"p{i}")[0] for i in range(4)]
    assert {chunk.title for chunk in found} == {"Celery tasks"}
    assert [chunk.headings for chunk in found] == [(), (), ("States",), ("Celery states",)]


def test_a_walk_goes_over_mentions_alone():
    index = KnowledgeIndex(WordLlama(), progress=False)
    index.add(
        [
            Document("a", "The Auth Service uses the OAuth Provider."),
            Document("b", "The OAuth Provider is sold by Keyring."),
        ]
    )
    with index.engine.snapshot() as snapshot:
        entity = snapshot.find_entities(["oauth provider"])["oauth provider"]
        edges = snapshot.walk(np.array([entity]))
        assert (edges.targets < snapshot.first_entity).all()
        assert edges.counts.tolist() == [2]
        assert edges.totals.tolist() == [2.0]
    assert [hit.chunk.id for hit in GraphRetriever(index).retrieve("Who sells what the Auth Service uses?").hits] == [
        "a",
        "b",
    ]
