"""Keywords in tantivy."""

from __future__ import annotations

import numpy as np
import pytest
import tantivy

from graphrag_core.engine.embedded.keywords import TantivyKeywords

NONE = np.empty(0, np.int64)
TEXTS = {
    1: "The Auth Service issues tokens.",
    2: "The OAuth Provider issues tokens, tokens and tokens.",
    3: "A red fox jumped.",
    4: "东京大学是日本的大学。",
    5: "München liegt an der Isar.",
}


def texts(by_key):
    return [(key, (text,)) for key, text in by_key.items()]


def filled(folder=None):
    store = TantivyKeywords(folder)
    store.apply(7, NONE, texts(TEXTS))
    return store


def test_a_new_store_is_empty():
    store = TantivyKeywords()
    assert store.generation == -1
    assert len(store.search("tokens", 5)[0]) == len(store.keys) == 0


def test_finds_words_whatever_their_form_and_case():
    store = filled()
    keys, scores = store.search("ISSUED token", 5)
    assert set(keys.tolist()) == {1, 2}
    assert (np.diff(scores) <= 0).all()
    assert (scores > 0).all()
    assert store.search("munchen", 5)[0].tolist() == [5]


def test_finds_chinese():
    assert filled().search("大学", 5)[0].tolist() == [4]


def test_takes_any_question():
    store = filled()
    for text in ("", "  ", '"', "AND OR NOT", "text:fox^9 (", "-fox +red *", "\\", "fox" * 5_000, "😀"):
        store.search(text, 5)
    assert store.search("fox:", 1)[0].tolist() == [3]


def test_returns_ties_with_the_last():
    store = TantivyKeywords()
    store.apply(1, NONE, [(key, ("the same words",)) for key in range(30)])
    assert store.search("words", 3)[0].tolist() == list(range(30))


def test_removed_texts_are_gone():
    store = filled()
    store.apply(8, np.array([2, 99]), [(9, ("New tokens.",))])
    assert store.generation == 8
    assert sorted(store.search("tokens", 5)[0].tolist()) == [1, 9]
    assert store.keys.tolist() == [1, 3, 4, 5, 9]


def test_replace_leaves_no_tombstones():
    store = filled()
    store.apply(8, np.array([2]), [])
    store.apply(9, None, [(1, (TEXTS[1],)), (3, (TEXTS[3],))])
    fresh = TantivyKeywords()
    fresh.apply(9, NONE, [(1, (TEXTS[1],)), (3, (TEXTS[3],))])
    assert store.tombstones == 0
    assert store.keys.tolist() == [1, 3]
    assert store.search("tokens", 5)[1].tolist() == fresh.search("tokens", 5)[1].tolist()


def test_holds_what_it_should_after_any_changes():
    random = np.random.default_rng(0)
    store = TantivyKeywords()
    have: set[int] = set()
    for generation in range(60):
        gone = [key for key in sorted(have) if random.random() < 0.3]
        new = list(range(generation * 5, generation * 5 + int(random.integers(0, 5))))
        have = (have - set(gone)) | set(new)
        if generation % 4 == 3:
            store.apply(generation, None, [(key, ("words",)) for key in sorted(have)])
        else:
            store.apply(generation, np.array(gone, np.int64), [(key, ("words",)) for key in new])
        assert store.keys.tolist() == sorted(have)


def test_a_scope_lets_nothing_else_through():
    store = TantivyKeywords()
    store.apply(1, NONE, [(key, ("tokens",)) for key in range(6_000)])
    keys = np.arange(10_000)
    few = np.isin(keys, [17, 5_000, 9_999])
    assert store.search("tokens", 10, few)[0].tolist() == [17, 5_000]
    many = keys % 2 == 1
    assert many[store.search("tokens", 10, many)[0]].all()
    assert len(store.search("tokens", 10, many)[0]) >= 10
    assert len(store.search("tokens", 10, keys < 0)[0]) == 0


def test_stays_on_disk(tmp_path):
    store = filled(tmp_path)
    before = store.search("tokens", 5)
    store.close()
    again = TantivyKeywords(tmp_path)
    assert again.generation == 7
    assert [x.tolist() for x in again.search("tokens", 5)] == [x.tolist() for x in before]
    again.close()


# -- fields, identifiers, phrases


def fields(*chunks):
    """Chunks of body, title, headings and defined terms, with keys from 0."""
    store = TantivyKeywords(fields=4)
    store.apply(1, NONE, list(enumerate(chunks)))
    return store


def test_a_change_that_is_applied_again_replaces_its_texts(tmp_path):
    filled(tmp_path).close()
    store = TantivyKeywords(tmp_path)  # its process may have ended between a commit and the note of its generation
    store.apply(8, NONE, texts({3: "A blue fox.", 9: "Another fox."}))
    assert sorted(store.search("fox", 9)[0].tolist()) == [3, 9]
    assert (store.size, store.tombstones) == (6, 1)
    store.apply(9, NONE, texts({10: "A third fox."}))
    assert (store.size, store.tombstones) == (7, 1)


def test_a_reader_sees_what_others_write_when_it_is_refreshed_and_keeps_no_searcher(tmp_path):
    writer = filled(tmp_path)
    reader = TantivyKeywords(tmp_path, read_only=True)
    for key in range(10, 30):  # tantivy merges the segments of so many commits
        writer.apply(key, NONE, texts({key: "A blue fox."}))
    writer.close()
    assert reader.search("fox", 30)[0].tolist() == [3]
    reader.refresh()
    assert sorted(reader.search("fox", 30)[0].tolist()) == [3, *range(10, 30)]
    # The last searcher of a deleted segment frees its files. If that is one of Python's, it holds the GIL meanwhile.
    assert not [value for value in vars(reader).values() if isinstance(value, tantivy.Searcher)]


def test_a_word_in_title_headings_or_terms_weighs_more():
    store = fields(
        ("Caching - Sessions\nWords about sessions.", "Caching", "Sessions", ""),
        ("Words about caching, sessions and pools.",),
        ("Words about pools and other things.", "", "", "pools"),
    )
    assert store.search("caching", 3)[0].tolist() == [0, 1]
    assert store.search("sessions", 3)[0].tolist() == [0, 1]
    assert store.search("pools", 3)[0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("broker_url", [0, 1, 2]),
        ("brokerUrl", [0, 1, 2]),
        ("broker-url", [0, 1, 2]),
        ("broker.url", [0, 1, 2]),
        ("BROKER_URL", [0, 1, 2]),
        ("sqlite3_open_v2()", [4]),
        ("open", [4]),
        ("html parser", [5]),
        ("HTMLParser", [5]),
        ("htmlparser", [5]),
    ],
)
def test_identifiers_are_found_whole_and_by_their_parts(question, found):
    store = fields(
        ("The broker_url setting.",),
        ("The brokerUrl setting.",),
        ("The broker-url setting.",),
        ("The url of a thing, and of another.",),
        ("Call sqlite3_open_v2() first.",),
        ("Use the HTMLParser class.",),
    )
    keys = store.search(question, 6)[0].tolist()
    assert sorted(keys[: len(found)]) == found


def test_a_quoted_phrase_is_found_as_a_phrase():
    store = fields(
        ("A pool of connections; a size of the pool; connection.",), ("Words, words, connection pool words, words.",)
    )
    assert store.search("connection pool", 2)[0].tolist() == [0, 1]
    for question in ('"connection pool"', "“connection pool”", 'what is the "Connection Pools"?'):
        assert store.search(question, 2)[0].tolist() == [1, 0]
    for question in ('"', '""', '"x', '"the"', '"the of a"'):
        store.search(question, 2)


def test_a_phrase_of_chinese_characters():
    store = fields(("日本的东京有大学，京大。",), ("我在东京大学。",))
    assert store.search("「东京大学」", 2)[0].tolist()[0] == 1


def test_counts_in_all_texts():
    store = TantivyKeywords()
    store.apply(1, NONE, [(key, ("even words" if key % 2 == 0 else "odd words",)) for key in range(10)])
    assert store.counts(["even", "word", "none"]).tolist() == [5, 10, 0]


@pytest.mark.parametrize("inside", [0, 100, 700], ids=["no", "a small", "a large"])
def test_a_term_of_no_visible_text_is_not_counted(inside):
    store = TantivyKeywords()
    words = ("all often" if key % 2 else "all rare" if key < 10 else "all" for key in range(3_000))
    store.apply(1, NONE, [(key, (text,)) for key, text in enumerate(words)])
    visible = np.zeros(3_000, np.bool_)
    visible[10 : 10 + 2 * inside : 2] = True
    assert store.counts(["all", "often", "rare", "none"]).tolist() == [3_000, 1_500, 5, 0]
    assert store.counts(["all", "often", "rare", "none"], visible).tolist() == [3_000 if inside else 0, 0, 0, 0]
    visible[[1, 2]] = True
    assert store.counts(["often", "rare"], visible).tolist() == [1_500, 5]
