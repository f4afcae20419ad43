"""Names in text, found without a model."""

from __future__ import annotations

import pytest

from graphrag_core.text import normalise, sentences, title_names, unwrap
from graphrag_core.text.mentions import code_names, find_aliases, find_names


def names(text: str, *, certain: bool = True) -> list[str]:
    text = unwrap(text)
    found = find_names(text, {start for start, _ in sentences(text)})
    assert all(text[f.start : f.end] == f.name for f in found), "a name stands where it says"
    return [f.name for f in found if f.certain or not certain]


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


def test_a_word_that_only_the_start_of_a_sentence_capitalises_is_not_certain():
    assert names("Keyring, again. They chose Redis.") == ["Redis"]
    assert names("Keyring, again. They chose Redis.", certain=False) == ["Keyring", "Redis"]


@pytest.mark.parametrize(
    "text", ["A span of `\t\t` in Berlin.", "A span of `\u00a0\u3000` in Berlin.", "`\t \t`, Berlin"]
)
def test_blank_code_spans_are_skipped(text):
    assert names(text) == ["Berlin"]


def test_identifiers_between_unusual_spaces_are_found_once():
    assert names("use kg_store\u00a0graph_store\u00a0word_count here") == ["kg_store", "graph_store", "word_count"]


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
        ("International Business Machines (IBM) sells.", [("IBM", "International Business Machines")]),
        (
            "NASA (National Aeronautics and Space Administration) flew.",
            [("NASA", "National Aeronautics and Space Administration")],
        ),
        ("We use DHCP (for Dynamic Host Configuration Protocol).", [("DHCP", "Dynamic Host Configuration Protocol")]),
        ("The Bank of England (BoE) said.", []),
        ("Esther Duflo (MIT) is editor.", []),
    ],
)
def test_aliases_are_taken_only_when_the_letters_agree(text, expected):
    found = find_names(text, {0})
    assert find_aliases(text, found) == expected


def test_one_entity_has_one_normal_form():
    same = ["Auth Service", "the AUTH SERVICE", "auth-service", "auth_service", "Auth  Service's", "Ａｕｔｈ Service"]
    assert {normalise(name) for name in same} == {"auth service"}
    assert normalise("東京") == "東京"
    assert normalise("Москва") == "москва"
    assert normalise("...") == ""
    assert len({normalise(x) for x in ("C", "C++", "C#")}) == 3


def test_a_title_has_its_bare_and_its_full_name():
    assert title_names("Devotion (1929 film)") == ("Devotion", "Devotion (1929 film)")
    assert title_names("(Untitled)") == ("(Untitled)",)
    assert title_names("!!!") == ()


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


def test_a_code_name_has_no_separator_at_its_end():
    assert [code_names(code) for code in ("valgrind/", "python-")] == [("valgrind",), ("python",)]


@pytest.mark.parametrize(
    "name",
    ["index.html", "config.py", "README.md", "/usr/share/doc/x", "file2", "foo.tar.gz", "polls/urls.py", "Setup.py"],
)
def test_file_names_are_no_names(name):
    assert code_names(name) == ()
    for text in (f"The Auth Service copies `{name}` twice.", f"The Auth Service copies {name} twice."):
        assert [match.name for match in find_names(text, {0})] == ["Auth Service"]


@pytest.mark.parametrize("name", ["django.utils.html", "math.log", "django.db", "mysql.JSON", "Node.js", "TCP/IP"])
def test_names_with_a_dot_or_slash_are_no_file_names(name):
    assert name in [match.name for match in find_names(f"The clerk asks {name} about it.", {0})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is said in Section 3.8 and in Chapter 4.", []),
        ("(See Section 4.2, Appendix B and Figure 2.1.)", []),
        ("The Bash Manual Section 3.8 has it.", ["Bash Manual"]),
        ("We saw The Godfather Part II there.", ["Godfather Part II"]),
        ("They run version 3.8, v2.1 and 1.2.3-rc1 of it.", []),
        ("The host 192.168.1.20 runs Debian 7.", ["192.168.1.20", "Debian 7"]),
        ("They met on Tuesday, 12 March 2024 and in June 2025.", ["2025"]),
        ("Date: Mon, 04 Mar 2024 09:12:00 +0100", []),
        ("Call +46 18 555 01 22 about EUR 340 of invoice 90312.", []),
        ("Hi Tom,\nplease call Rosa Millan.", ["Tom", "Rosa Millan"]),
        ("Dear Ms. Holm,\nwe sent it.", ["Ms. Holm"]),
        ("Finally Redis won. It was, Finally, done.", ["Redis"]),
        ("Conventionally SQL comes first.", ["SQL"]),
        ("Users of the language R. A. R is short.", []),
        ("It is a BLAS-using routine.", ["BLAS"]),
        ("The train from Arlanda to Lisbon is late.", ["Arlanda", "Lisbon"]),
        ("He reads the Guide to Lisbon.", ["Guide to Lisbon"]),
        ("We met Systemair in Brno, and Brno is nice.", ["Systemair", "Brno", "Brno"]),
        ("It is stored in eu-central-1, i.e. n-1 copies.", ["eu-central-1"]),
        ("A note on the distributions8 of it.", []),
        ("It takes (a) Remove the blanks.", []),
        ("Title: Labels print twice", []),
        ("A. R. Rahman met C. A. Nicholson and the YES Network.", ["A. R. Rahman", "C. A. Nicholson", "YES Network"]),
        ("We saw October November there.", ["October November"]),
        ("It is B.6 Using Fortran, or else. Chapter 4 Widgets is long.", ["Fortran", "Widgets"]),
        ("We read NOTE UEFI and Level 6 of `rmdir directory` and `make NAME`.", ["UEFI", "rmdir"]),
        ("341613 Enable it on MIPS. 5.2 Alternative ways of the FICOM 103320.", ["MIPS", "FICOM"]),
        ("See 91 Typically on a Unix-alike, 32 308718 ARM and C.3.3.", ["Unix-alike", "ARM"]),
    ],
)
def test_references_dates_amounts_greetings_and_adverbs_are_no_names(text, expected):
    assert names(text) == expected
