"""Names in text, found without a model."""

from __future__ import annotations

import pytest

from graphrag_core import Chunk, SentenceExtractor


def names(text: str) -> list[str]:
    (found,) = SentenceExtractor().extract([Chunk("1", "1", text)])
    return [mention.name for mention in found.mentions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We asked the Bank of England.", ["Bank of England"]),
        ("It was led by Ludwig van Beethoven and Clara Schumann.", ["Ludwig van Beethoven", "Clara Schumann"]),
        ("He met Dr. Ada Lovelace, J. R. R. Tolkien and O'Brien.", ["Dr. Ada Lovelace", "J. R. R. Tolkien", "O'Brien"]),
        ("They left Freud's house in 1938.", ["Freud", "1938"]),
        ("A U.S. grocer beside the U.S. Army, seen by J.R.R. Tolkien.", ["U.S", "U.S. Army", "J.R.R. Tolkien"]),
        ("It opened in October 2005 on a Monday.", ["2005"]),
        ("There were 35 of 1,200 left, 12.5 each.", []),
        ("The University of Göttingen in 1854 was small.", ["University of Göttingen", "1854"]),
        ("In 2019 Москва и Österreich agreed.", ["2019", "Москва", "Österreich"]),
        ('Read “War and Peace” or "The Hollywood Reporter".', ["War and Peace", "The Hollywood Reporter"]),
        ('He said "this is not a name" twice.', []),
        ("NASA and the IEEE agreed with AT&T.", ["NASA", "IEEE", "AT&T"]),
        (
            "Call `exchange_code` or graph_store in faiss.index_factory.",
            ["exchange_code", "graph_store", "faiss.index_factory"],
        ),
        ("The camelCase and GraphRetriever classes.", ["camelCase", "GraphRetriever"]),
        ("It broke in v1.2.3, not 2.0.1, see 2501.03236 and INC-2041.", ["2501.03236", "INC-2041"]),
        ("They use oauth2, gpt-4 and C++ with Node.js.", ["oauth2", "gpt-4", "C++", "Node.js"]),
        ("e.g. this, i.e. that, etc. and so on.", []),
    ],
)
def test_names_are_found(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "However the price rose.",
        "Restart the server.",
        "Although they left, nobody saw.",
        "Symptoms include fever. Depression often follows.",
        "Then it ended. Nothing more.",
        "Following that, sales fell.",
    ],
)
def test_words_that_open_sentences_are_no_names(text):
    assert names(text) == []


def test_chinese_and_japanese_names():
    assert names("卡万·肖特在北京大学读《红楼梦》。") == ["卡万·肖特", "北京大学", "红楼梦"]
    assert names("黑豹队领先国家橄榄球联盟 (NFL)。")[-1] == "NFL"
    assert "コンピューター" in names("新しいコンピューターを東京大学で使う。")
    assert "東京大学" in "".join(names("新しいコンピューターを東京大学で使う。"))


def test_names_across_a_wrapped_line_are_one():
    text = "This paragraph was wrapped by an editor, so that the Auth\nService stands on two lines."
    assert names(text) == ["Auth Service"]
    assert names("Overview\nAuth Service") == ["Auth Service"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ivo Kask met Mara Lindqvist in Tallinn.", ["Ivo Kask", "Mara Lindqvist"]),
        ("She runs Norden Works in the Netherlands.", ["Norden Works"]),
        ("He joined Kelvaag Instruments on Monday.", ["Kelvaag Instruments"]),
        ('Then "__exit__()" is called.', ["__exit__"]),
        ("It left the Ministry of Defence in London.", ["Ministry of Defence"]),
        ("We saw Rosa Millan in October 2005.", ["Rosa Millan", "2005"]),
        ("We read Alice in Wonderland.", ["Alice in Wonderland"]),
        ("We saw Once Upon a Time in America.", ["Once Upon a Time in America"]),
        ("He left the University of California at Berkeley.", ["University of California at Berkeley"]),
        ("We saw “Last Tango in Paris” there.", ["Last Tango in Paris"]),
    ],
)
def test_a_name_and_its_place_are_two_names_and_titles_are_one(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Look at https://example.com/Docs/a_b/index.html?x=1 now.",
        "Look at www.Example.com/Docs/Index.html now.",
        "Look at example.com/a_b/Guide now.",
        "Look at `https://example.com/a/b` and `example.com/a/b` now.",
    ],
)
def test_parts_of_addresses_in_the_web_are_no_names(text):
    assert names(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "We merged fa364ad790 and `8c1cfd58e3` later.",
        "We push to git@github.com:some/thing_x.git and mail to ada_l@example.org then.",
        f"We stored {'ACxMAAAs' * 20} there.",
    ],
)
def test_hashes_mail_addresses_and_encoded_data_are_no_names(text):
    assert names(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is said in Section 3.8 and in Chapter 4.", []),
        ("(See Section 4.2, Appendix B and Figure 2.1.)", []),
        ("The Bash Manual Section 3.8 has it.", ["Bash Manual"]),
        ("We saw The Godfather Part II there.", ["Godfather Part II"]),
        ("It is on the Site Map, the Home Page, at Line 2 and (See Section) in Step 3.", []),
        ("They run version 3.8, v2.1 and 1.2.3-rc1 of it.", []),
        ("The host 192.168.1.20 runs Debian 7.", ["192.168.1.20", "Debian 7"]),
        ("They met on Tuesday, 12 March 2024 and in June 2025.", ["2025"]),
        ("Date: Mon, 04 Mar 2024 09:12:00 +0100", []),
        ("Hi Tom,\nplease call Rosa Millan.", ["Tom", "Rosa Millan"]),
        ("Dear Ms. Holm,\nwe sent it.", ["Ms. Holm"]),
        ("Finally Redis won. It was, Finally, done.", ["Redis"]),
        ("Conventionally SQL comes first.", ["SQL"]),
        ("Users of the language R. A. R is short.", []),
        ("It is a BLAS-using routine.", ["BLAS"]),
        ("He reads the Guide to Lisbon.", ["Guide to Lisbon"]),
        ("It is stored in eu-central-1, i.e. n-1 copies.", ["eu-central-1"]),
        ("A note on the distributions8 of it.", []),
        ("It takes (a) Remove the blanks.", []),
        ("Title: Labels print twice", []),
        ("A. R. Rahman met C. A. Nicholson and the YES Network.", ["A. R. Rahman", "C. A. Nicholson", "YES Network"]),
        ("We saw October November there.", ["October November"]),
        ("It is B.6 Using Fortran, or else. Chapter 4 Widgets is long.", ["Fortran", "Widgets"]),
    ],
)
def test_references_dates_amounts_greetings_and_adverbs_are_no_names(text, expected):
    assert names(text) == expected
