"""Passages that are not text: navigation, tables of contents and indexes."""

from __future__ import annotations

import pytest

from graphrag_core import Document, SentenceExtractor
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.model import Chunk
from graphrag_core.text.navigation import is_navigation

BAR = "Next: Pools, Previous: Engines, Up: Connections \xa0 [Contents][Index]"
BUTTONS = "[ << ] [ < ] [ Up ] [ > ] [ >> ] [Top] [Contents] [Index] [ ? ]"
CONTENTS = """Table of Contents

1. Introduction ............ 1
1.1 Installing Keyring ..... 3
2. Tokens .................. 12
2.1 Refreshing .............. 15
"""
SPACED_CONTENTS = """1.  Introduction . . . . . . . . . . . . . . . . . . . . . . .   3
2.  Terminology  . . . . . . . . . . . . . . . . . . . . . . . .   4
3.  Token Endpoint . . . . . . . . . . . . . . . . . . . . . . .  11
"""
BOOK_INDEX = """access token, 12, 45
audience, 7
client, 3, 8-10, 44
client secret, 9
consent, 31
"""
RUN_TOGETHER = "variable, 26, 62, 63 vertical, 24 voigt, 38 voxel, 24, 39 word, 39, 41, 57 writeback, 216"
TEXINFO = """| | `vander`: | | Famous Matrices |
| | `var`: | | Descriptive Statistics |
| W | | |
| | `warning`: | | Issuing Warnings |
"""
LINKS = "## Guides\n\n- [Install](install.md)\n- [Configure the broker](broker.md#conf)\n- [Upgrade](up.md)\n"
TOCTREE = "```{toctree}\n:maxdepth: 2\n\nroles\nscopes\nuse-cases\n```\n"

OPTIONS = """- `--retries N`: how often a failed task is run again.
- `--timeout S`: seconds until the broker gives up.
- [`--pool`](pools.md): which pool the worker uses, for instance prefork.
"""
GLOSSARY = """access token
: What a client presents to the resource server.

audience
: The service that a token is issued for.
"""
CODE = "```python\nnumbers = [[0, 2, 4, 6, 8],\n  [10, 12, 14, 16],\n  [20, 22, 24]]\n```\n"
DATA = "| Country | 2020 | 2021 |\n|---|---|---|\n| [Austria](at.md) | 112 | 118 |\n| [Belgium](be.md) | 109 | 120 |\n"
CSV = "apples, 12, 4\nbananas, 45, 5\ncherries, 7, 9\ndates, 99, 1\nelderberries, 3, 2\n"
LEADERS = """Number of entries................................. 28530
Bytes of storage consumed......................... 3244
Unused bytes on all pages......................... 102
Percentage of total database......................  44.8%
"""
CHANGES = (
    "## 1.4.2\n\n- [#123](issues.md#123) Fixed a crash of the pool after a fork.\n- [#125](issues.md#125) New broker.\n"
)
CHAT = "Ada: Next: the broker?\nBob: up: tomorrow\nAda: ok\n"
POEM = "The fog comes\non little cat feet.\n\nIt sits looking\nover harbor and city\n"
FACTS = (
    "- Keyring: vendor of the OAuth Provider\n- Auth Service: uses the OAuth Provider\n- Ada: owns the Auth Service\n"
)
QUESTIONS = (
    "- [How do I install Keyring?](a.md)\n- [Why is my token refused?](b.md)\n- [Who owns the Auth Service?](c.md)\n"
)
VENDORS = (
    "## Providers\n\n- [Keyring](https://keyring.example)\n- [Auth0](https://auth0.com)\n- [Okta](https://okta.com)\n"
)
DATES = "In London, 1815 she was born. In Paris, 1833 she met Babbage, and in Rome, 1835 she married."
ELLIPSES = "He waited . . . and waited. Then it was over ..... 12 men had left.\n"
SUMMARY = (
    "See [Install](install.md) and [Upgrade](up.md) before the worker is started for the first time on a new host."
)
CHINESE = "开放授权提供商，12，45。钥匙环公司，索引，目录。\n第一章　绪论\n第二章　方法\n"
JAPANESE = "次へ：設定、前へ：導入、認証サービスは鍵を発行する。\n"


def chunk(text, title="Manual", headings=()):
    return Chunk("1", "1", text, title, headings=headings)


def passages(text, place="guide/page.md", title=""):
    return Chunker().split(Document(place, text, title))


@pytest.mark.parametrize(
    "text", [BAR, BUTTONS, CONTENTS, SPACED_CONTENTS, BOOK_INDEX, RUN_TOGETHER, TEXINFO, LINKS, TOCTREE]
)
def test_navigation_contents_and_indexes_are_not_text(text):
    assert is_navigation(chunk(text))
    assert all(map(is_navigation, passages(text)))
    assert is_navigation(chunk(f"{text}\n{BAR}\n"))


@pytest.mark.parametrize(
    "text",
    [
        OPTIONS, GLOSSARY, CODE, DATA, CSV, LEADERS, CHANGES, CHAT, POEM, FACTS, QUESTIONS, VENDORS, DATES, ELLIPSES,
        SUMMARY, CHINESE, JAPANESE, "milk\neggs\nbread",
    ],
)  # fmt: skip
def test_what_says_something_is_text(text):
    assert not is_navigation(chunk(text))
    assert not any(map(is_navigation, passages(text)))
    assert not is_navigation(chunk(f"{BAR}\n\n{text}"))


@pytest.mark.parametrize("text", ["", "OK", "Up: yes, 12", "A\n\nB\n\nC"])
def test_short_notes_are_text(text):
    assert not is_navigation(chunk(text))


def test_terms_below_the_title_of_an_index_are_not_text():
    terms = "acknowledgement\nbroker\nchannel\nexchange\nqueue\nrouting key\n"
    for title in ("Concept Index", "B.5 Function and Variable Index", "Index of Commands", "Stichwortverzeichnis"):
        assert is_navigation(chunk(terms, title))
        assert is_navigation(chunk(f"## {title}\n\n{terms}", headings=(title,)))
    assert not is_navigation(chunk(terms, "Words for the spelling test"))
    assert not is_navigation(chunk("smaller files\nfaster writes\nno locks\na cache\n", "Partial Index"))
    assert not is_navigation(chunk("| Austria | 112 |\n| Belgium | 109 |\n" * 3, "Consumer Price Index"))


def test_the_letters_of_an_index_are_not_text():
    assert is_navigation(chunk("### A\n\n### B\n\n### C\n\nAppendix D: Function and variable index\n"))
    assert not is_navigation(chunk("### A\n\n### B\n\n### C\n\nThe third drive is reserved for the system.\n"))


def test_names_below_see_also_are_not_text():
    assert is_navigation(chunk("## See Also\n\nALTER ROLE, DROP ROLE, GRANT\n", headings=("See Also",)))
    text = "## See Also\n\nGRANT, which gives the role that is created here its rights.\n"
    assert not is_navigation(chunk(text, headings=("See Also",)))


# -- extraction


def mentions(text, place="guide/page.md", title=""):
    return [e.mentions for e in SentenceExtractor().extract(passages(text, place, title))]


def test_an_index_gives_no_names_and_no_facts_but_keeps_the_places_that_links_lead_to():
    (found,) = SentenceExtractor().extract(passages(f"# Concept Index\n\n{LINKS}", "manual/concepts.md"))
    assert not found.facts
    assert [mention.name for mention in found.mentions if mention.name[0] != "→"] == []
    assert ("→manual/concepts", True) in [(mention.name, mention.subject) for mention in found.mentions]


def test_a_title_stays_the_subject_of_the_other_passages_of_its_document():
    text = (
        f"# Keyring\n\n## Overview\n\n{'Keyring issues tokens to the Auth Service. ' * 20}\n\n## Pages\n\n{LINKS * 8}"
    )
    found = mentions(text)
    assert "Keyring" in {mention.name for mention in found[0]}
    assert [m.name for m in found[-1] if m.name[0] != "→"] == []
