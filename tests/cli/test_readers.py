"""What each reader makes of real files of its format: text, title, marks; and of broken ones."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from email.message import EmailMessage

import docx
import openpyxl
import pptx
import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen import canvas

from graphrag_apps.documents import load_documents
from graphrag_apps.documents.load import FORMATS
from graphrag_apps.documents.plain import read_markdown, read_text
from graphrag_apps.documents.rst import rst_content
from graphrag_core.text.html import html_content
from graphrag_core.text.markup import plain
from graphrag_core.text.scanner import scan


def load(folder):
    problems = []
    documents = {document.id: document for document in load_documents([folder], on_problem=problems.append)}
    return documents, problems


def marked(content, kind):
    """Return value and words of the marks of a kind that the scanner finds."""
    return [(m.value, content.text[m.start : m.end]) for m in scan(content.text, markdown=False) if m.kind == kind]


# -- reStructuredText

RST = """
:orphan:

.. _guide-broker:

==========
 Choosing a Broker
==========

.. contents::
   :local:

.. toctree::
   :maxdepth: 2

   hidden/page

Read :ref:`the tasks guide <guide-tasks>`, :doc:`/userguide/tasks` or `the site <https://example.org>`_.
Set :setting:`broker_url` and see :class:`~celery.app.Task` |and| ``literal``. |unknown|

.. |and| replace:: and also

.. setting:: broker_url

``broker_url``
--------------

Default: none.

.. versionadded:: 4.0

.. versionchanged:: 4.1
   Now a :term:`URL`.

.. note:: Restart *all* workers.

.. code-block:: python
   :linenos:

   if url:
       connect()

.. function:: connect(url, timeout=3)

   Open a connection.

   :param url: where to connect
   :returns: a connection

.. glossary::

   URL
   address
      Where a thing is.

.. unknown-directive:: Some Title
   :flag:

   Its text is kept.

.. include:: /etc/passwd

.. raw:: html

   <b>raw</b>

======  =====
 Name   Port
======  =====
AMQP    5672
======  =====

-f FILE  Read a file.

.. automodule:: celery.app
   :members:
"""


def test_rst_becomes_markdown_with_marks():
    content = rst_content(RST)
    assert content.title == "Choosing a Broker"
    assert (
        content.text
        == """# <a id="guide-broker"></a>Choosing a Broker

Read [the tasks guide](guide-tasks), [/userguide/tasks](/userguide/tasks) or [the site](https://example.org). \
Set [`broker_url`](broker_url) and see [`Task`](celery.app.Task) and also `literal`. unknown

## <a id="broker-url"></a>`broker_url`

Default: none.

Added in version 4.0.

Changed in version 4.1: Now a [URL](url).

Note: Restart all workers.

```python
if url:
    connect()
```

<a id="connect"></a>`connect(url, timeout=3)`
: Open a connection.

  - `url`: where to connect
  - returns: a connection

<a id="url"></a>URL
<a id="address"></a>address
: Where a thing is.

Some Title

Its text is kept.

| Name | Port |
|---|---|
| AMQP | 5672 |

`-f FILE`
: Read a file."""
    )
    assert marked(content, "link") == [
        ("guide-tasks", "the tasks guide"),
        ("/userguide/tasks", "/userguide/tasks"),
        ("https://example.org", "the site"),
        ("broker_url", "`broker_url`"),
        ("celery.app.Task", "`Task`"),
        ("url", "URL"),
    ]
    assert {"guide-broker", "broker_url", "connect"} < {value for value, _ in marked(content, "anchor")}
    assert [value for value, _ in marked(content, "term")] == ["broker_url", "connect", "url", "URL", "address", "-f"]


def test_broken_rst_prints_nothing_and_loses_no_text(capsys):
    source = (
        "Title\n=====\n\n`unclosed and *unclosed and |unclosed\n\n"
        "Sub\n~~~\n\nDeep\n^^^^\n\nBack\n####\n\n.. figure::\n\n.. csv-table::\n   :file: /etc/passwd\n\n"
        "====  ====\nName  Port and more than fits\n====  ====\nAMQP  5672\n====  ====\n\n:unknown:`role <x>` end.\n"
    )
    content = rst_content(source)
    assert capsys.readouterr() == ("", "")
    for word in ("unclosed", "Deep", "Back", "AMQP", "5672", "role", "end."):
        assert word in content.text
    assert "root:" not in content.text
    assert "==" not in content.text


def test_other_users_of_docutils_in_the_process_are_not_affected():
    from docutils.core import publish_doctree

    rst_content(RST)
    assert "<note>" in publish_doctree(".. note:: Hello").pformat()


def test_a_module_page_without_a_heading_is_called_after_the_module():
    content = rst_content(
        ".. currentmodule:: celery.app\n.. automodule:: celery.app\n\n   Proxies\n   -------\n\n   .. autodata:: app\n"
    )
    assert content.title == "celery.app"
    assert content.text.endswith('<a id="celery.app.app"></a>`app`')


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("NAME_<CONFIG>\n=============\n\nText.\n", "NAME_<CONFIG>"),
        (":class:`~app.Task` and ``x``\n============================\n", "Task and x"),
        ("2.1.0\n=====\n\nFixed.\n\n2.0.0\n=====\n\nNew.\n", ""),
        ("Just text.\n", ""),
    ],
)
def test_the_title_of_rst_is_its_own(source, title):
    assert rst_content(source).title == title


def test_text_files_are_read_as_rst_only_if_they_are():
    assert (
        read_text(b"Usage\n=====\n\n.. note:: Read :ref:`this <that>`.\n").text == "# Usage\n\nNote: Read [this](that)."
    )
    manual = b"NAME\n    ls - list\n\n\tFILE ...   # not a title\n-----\n"
    assert read_text(manual).text == manual.decode()


# -- Markdown


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("```sh\n# comment\n```\n\n# Real *title* [link](x.md)\n", "Real title link"),
        ("Text first.\n\nSetext `code`\n=====\n\nMore\n\nOther\n=====\n", "Setext code"),
        ("<h1 align=center>A  Project</h1>\n\n# Install\n", "A Project"),
        ("(label)=\n## Opens with two\n", "Opens with two"),
        ("Some text.\n\n## Basics\n", ""),
        ("[![badge](x.svg)](y)\n\n# Title {#anchor}\n", "Title"),
        ("---\ntitle: 'From above'\n---\n# Other\n", "From above"),
        ("# 2.1.0 (2024-06-17)\n\n- Fixed.\n\n# 2.0.0\n", ""),
    ],
)
def test_the_title_of_markdown_is_its_first_heading_of_level_one(source, title):
    assert read_markdown(source.encode()).title == title


def test_front_matter_becomes_metadata_and_does_not_say_where_the_file_is(tmp_path):
    (tmp_path / "x.md").write_text(
        "---\ntitle: X\ntags: [a, b]\nauthors:\n  - Ada\n  - Rosa\nsource: elsewhere\nfolder: f\nfile_name: n\n"
        "year: 2021\n---\n\n# Y\n"
    )
    (document,) = load(tmp_path)[0].values()
    assert document.title == "X"
    assert document.text.strip() == "# Y"
    assert document.metadata == {
        "tags": ["a", "b"], "authors": ["Ada", "Rosa"], "year": 2021, "format": "markdown",
        "source": "x.md", "folder": "", "file_name": "x.md",
    }  # fmt: skip


def test_markdown_that_is_a_web_page_is_read_as_one():
    assert read_markdown(b"<!DOCTYPE html><title>T</title><nav>Home</nav><p>Text.</p>").text == "Text."


# -- HTML

PAGE = """<!DOCTYPE html><html><head><title>Broker settings — Docs 2.0</title><style>p {}</style></head><body>
<div class="skip-link"><a href="#main">Skip to content</a></div>
<header class="site"><a href="/">Docs</a> Search docs</header>
<div class="nav-bar"><ul><li><a href="a.html">A</a><li><a href="b.html">B</a></ul></div>
<div id="main" class="page-content">
<ol class="breadcrumbs"><li><a href="/">Home</a></li><li>Settings</li></ol>
<h1 id="broker">Broker settings<a class="headerlink" href="#broker">¶</a></h1>
<ul><li><a href="#url">url</a><li><a href="#pool">pool</a><li><a href="#heartbeat">heartbeat</a></ul>
<p>See <a href="tasks.html#retry">how to
   <b>retry</b></a> and <a href="x.html"><img src=i.png></a>2<sup>31</sup>. Use <code>a
 b</code> <tt>c</tt>.<br>Next line.</p>
<dl><dt id="url"><code>url</code><a class=headerlink href="#url">¶</a></dt>
<dd><p>Where the broker is.</p><p>Required.</p></dd>
<a name="pool"></a><dt>pool(size)</dt><dd>How many.</dd></dl>
<h2 id="heartbeat"><span class="section-number">1.2. </span>Heartbeat</h2>
<div class="highlight-python"><pre>
while True:
    beat()
</pre></div>
<ol start=3><li>three<ul><li>inner</ul><li>four</ol>
<table><tr><th>Name<th>Port</tr><tr><td>AMQP<td><a href=amqp.html>5672</a></tr></table>
</div>
<div class="prev-next"><a href="p">Previous</a> <a href="n">Next</a></div>
<div class="cookie-banner">We use cookies.</div>
<p><small>Last updated on 2024-01-01.</small></p>
</body></html>"""


def test_html_becomes_markdown_without_what_surrounds_it():
    content = html_content(PAGE)
    assert content.title == "Broker settings"
    assert (
        content.text
        == """# <a id="main"></a><a id="broker"></a>Broker settings

See [how to retry](tasks.html#retry) and 2^31. Use `a b` `c`.
Next line.

<a id="url"></a>`url`
: Where the broker is.

  Required.

<a id="pool"></a>pool(size)
: How many.

## Heartbeat

```python
while True:
    beat()
```

3. three
   - inner
4. four

| Name | Port |
|---|---|
| AMQP | [5672](amqp.html) |"""
    )
    assert marked(content, "link") == [("tasks.html#retry", "how to retry"), ("amqp.html", "5672")]
    assert marked(content, "term") == [("url", "`url`"), ("pool", "pool(size)")]


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("<title>SELECT</title><h1><span>1. </span>Overview</h1><p>x<h1><span>2. </span>Rows</h1>", "SELECT"),
        ("<title>INSERT</title><h1>1. Overview</h1><p>x", "INSERT"),
        ("<title>Ledger | Harbour</title><h1>Harbour</h1><p>x", "Ledger"),
        ("<title>The tool</title><h1>A library</h1><h2>The tool</h2><p>x", "The tool"),
        ("<title>Site</title><h1>The page</h1><p>x", "The page"),
        ("<title>Guide - Part two - Site</title><p>x", "Guide - Part two"),
        ("<title>Quoting (Shell Manual)</title><h3>3.1.2 Quoting</h3><p>x", "Quoting"),
        ("<title>Parameters (shell)</title><h1>15 Parameters</h1><p>x<h1>Other</h1>", "Parameters"),
        ("<title>15. Routers</title><h1><a href=/>Mailer</a></h1><h2>Chapter 15 - Routers</h2><p>x", "Routers"),
        ("<title>Session API - Ledger 2.1 Documentation</title><h1>A Session API</h1><h1>x</h1>", "Session API"),
        ("<h2>Only this</h2><p>x", "Only this"),
        ("<p>x", ""),
    ],
)
def test_the_title_of_a_page_is_its_own(source, title):
    assert html_content(source).title == title


def test_links_to_the_pages_around_are_no_text_of_the_page():
    steps = "".join(
        f"<a class={kind}_page href={kind}.html>{text}</a>"
        for kind, text in (("previous", "&lt;-previous"), ("toc", "Table of Contents"), ("next", "next-&gt;"))
    )
    assert (
        html_content(f"<div>{steps}<h1>Routers</h1><p>A router is asked.</p>{steps}</div>").text
        == "# Routers\n\nA router is asked."
    )


def test_sections_marked_by_bold_lines_with_anchors_become_headings():
    content = html_content(
        "<h2>List</h2><p>First.<a name=auto></a><hr><p><b>PRAGMA auto;<br>PRAGMA auto = </b><i>N</i></p><p>Text.</p>"
    )
    assert content.text == ('## List\n\nFirst.\n\n### <a id="auto"></a>PRAGMA auto;\nPRAGMA auto = N\n\nText.')


def test_a_row_stays_together_if_its_cells_hold_lists_or_code():
    content = html_content(
        "<table><tr><th>Call</th><th>Meaning</th></tr><tr><td><pre>moor()</pre></td><td>Moors:<ul><li>the ship<li>the "
        "tug</ul></td></tr></table>"
    )
    assert content.text == "| Call | Meaning |\n|---|---|\n| `moor()` | Moors: the ship the tug |"


def test_text_around_a_table_is_not_glued_to_its_cells():
    content = html_content(
        "<fieldset><legend>Berths</legend>Open all day<table><tr><td>North</td><td>9 m</td></tr></table>in summer"
        "<table><tr><td>Only by day</td></tr></table>and at night</fieldset>"
    )
    assert content.text == "Berths\n\nOpen all day\n\n| North | 9 m |\n\nin summer\n\nOnly by day\n\nand at night"


def test_code_at_the_start_of_a_definition_hides_no_heading():
    entries = "".join(f"<dt><code>{name}</code><dd><pre>{name} [n]</pre><p>About {name}.</p>" for name in ("cd", "pwd"))
    content = html_content(f"<h1>Shell</h1><dl>{entries}</dl><h2>Next</h2><p>Text.</p>")
    assert content.text.startswith("# Shell\n\n`cd`\n\n  ```\n  cd [n]\n  ```\n\n  About cd.\n\n`pwd`")
    assert [words for _, words in marked(content, "heading")] == ["Shell", "Next"]


def test_an_index_of_links_to_other_pages_is_text():
    links = "".join(f"<li><a href={name}.html>{name}</a>" for name in ("tides", "berths", "quays", "cranes"))
    content = html_content(f"<h1>Contents of the manual</h1><ul>{links}</ul>")
    assert [value for value, _ in marked(content, "link")] == ["tides.html", "berths.html", "quays.html", "cranes.html"]


def test_html_of_unusual_shape_is_read():
    deep = html_content("<div><ul><li>" * 2_000 + "deep down" + "</li></ul></div>" * 2_000)
    assert deep.text.endswith("deep down")
    assert len(html_content(f"<p>{'word ' * 200_000}").text) == 999_999
    assert html_content("").text == ""
    assert html_content("<td>loose<tr>rows").text


# -- PDF


def pdf_file(path, draw, title=None, **settings):
    page = canvas.Canvas(str(path), pagesize=A4, **settings)
    if title:
        page.setTitle(title)
    draw(page)
    page.save()


def draw_lines(page, x, y, lines, font="Helvetica", size=10, leading=12):
    page.setFont(font, size)
    for line in lines:
        page.drawString(x, y, line)
        y -= leading
    return y


LEFT = """\
The harbour master decides which ship
may enter the port and when it must
leave again. He takes the tides from
the Tide Feed, which the harbour of-
fice runs, and the wind from two buoys
outside the mole. Ships that are too
deep for the channel wait for the next
high water at the outer anchorage and
call again on channel twelve when the""".split("\n")
RIGHT = """\
pilot is ready to board. In winter the
ice service adds one hour to every
arrival, because tugs are fewer then.
Cargo is planned by the Quay Planner,
which shows the berths of all ships on
one page and warns of conflicts early.
Customs sees the same page, but not
the prices, which belong to the billing
service of the port and to nobody else.""".split("\n")


def test_pdf_columns_headings_headers_and_page_numbers(tmp_path):
    def draw(page):
        for number in range(1, 5):
            page.setFont("Helvetica", 8)
            page.drawString(60, 810, "Harbour Handbook")
            page.drawString(290, 30, str(number))
            draw_lines(page, 60, 770, [f"Chapter {'ABCD'[number - 1]}"], "Helvetica-Bold", 18)
            for left, right, y in zip(
                LEFT, RIGHT, range(740, 500, -12), strict=False
            ):  # row by row, across the columns
                draw_lines(page, 60, y, [left])
                draw_lines(page, 320, y, [right])
            page.showPage()

    pdf_file(tmp_path / "handbook.pdf", draw, title="Microsoft Word - handbook.doc")
    (document,) = load(tmp_path)[0].values()
    assert document.title == "Chapter A"
    assert document.metadata["pages"] == 4
    assert "Harbour Handbook" not in document.text
    text = " ".join((*LEFT, *RIGHT)).replace("of- fice", "office")
    pages = (f"<!-- page {n} -->\n\n# Chapter {letter}\n\n{text}" for n, letter in enumerate("ABCD", 1))
    assert document.text == "\n\n".join(pages)


def test_lines_of_a_table_of_contents_and_of_an_index_are_no_text_of_a_pdf(tmp_path):
    def draw(page):
        draw_lines(page, 60, 770, ["Contents", "1 Tides 2", "Moorings . . . . . . . 2", "Version 2", "Pilots wait."])
        draw_lines(page, 60, 700, ["tides . . . . . . 2, 3", "wind ........... 1-2, iv"])
        page.showPage()
        for y, title in ((770, "1 Tides"), (700, "Version 2")):
            draw_lines(page, 60, y, [title])
            draw_lines(page, 60, y - 30, ["The tides turn twice a day."])
            page.bookmarkPage(title)
            page.addOutlineEntry(title, title)

    pdf_file(tmp_path / "tides.pdf", draw)
    (document,) = load(tmp_path)[0].values()
    assert document.text == (
        "<!-- page 1 -->\n\nContents\n\nVersion 2 Pilots wait.\n\n<!-- page 2 -->\n\n"
        "# 1 Tides\n\nThe tides turn twice a day.\n\n# Version 2\n\nThe tides turn twice a day."
    )


def test_the_outline_of_a_pdf_says_what_is_a_heading(tmp_path):
    def draw(page):
        titles = {"Moorings": 0, "1.1 Lines and fenders of ships that stay": 1, "1.2 Anchors": 1}
        for y, (title, level) in zip((770, 640, 500), titles.items(), strict=True):
            first, _, rest = title.partition(" of ")
            bottom = draw_lines(page, 60, y, [first, *([f"of {rest}"] if rest else [])], size=14, leading=16)
            draw_lines(page, 60, bottom - 10, ["Note"], size=16)
            draw_lines(page, 60, bottom - 40, ["Ships are moored with four lines.", "Packages) come later."])
            page.bookmarkPage(title)
            page.addOutlineEntry(title, title, level)

    pdf_file(tmp_path / "moorings.pdf", draw)
    pdf_file(tmp_path / "plain.pdf", lambda page: draw_lines(page, 60, 700, ["Tides turn.", "Twice."] * 9))
    documents = load(tmp_path)[0]
    text = documents["moorings.pdf"].text
    assert [line for line in text.split("\n") if line.startswith("#")] == [
        "# Moorings",
        "## 1.1 Lines and fenders of ships that stay",
        "## 1.2 Anchors",
    ]
    assert text.count("Note") == 3
    assert "#" not in documents["plain.pdf"].text


def test_links_inside_a_pdf_lead_to_the_section(tmp_path):
    def draw(page):
        bottom = draw_lines(page, 60, 770, ["Arrival"], size=16)
        draw_lines(page, 60, bottom - 10, ["Ships that wait are described in 2 (page 1)."])
        page.linkRect("", "anchoring", (205, bottom - 13, 213, bottom))
        page.linkRect("", "top", (240, bottom - 13, 248, bottom))  # as in an index
        page.bookmarkHorizontal("top", 0, 800)
        draw_lines(page, 60, 500, ["2 Anchoring"], size=16)
        page.bookmarkHorizontal("anchoring", 0, 520)
        draw_lines(page, 60, 470, ["Anchors hold in mud."])

    pdf_file(tmp_path / "port.pdf", draw)
    (document,) = load(tmp_path)[0].values()
    assert "# Arrival\n\nShips that wait are described in [2](#page-1-3) (page 1)." in document.text
    assert '# <a id="page-1-3"></a>2 Anchoring' in document.text


def test_the_number_of_a_footnote_in_a_pdf_is_no_part_of_the_word_before(tmp_path):
    def draw(page):
        text = page.beginText(60, 700)
        text.setFont("Helvetica", 10)
        text.textOut("Pilots wait")
        text.setFont("Helvetica", 6)
        text.setRise(4)
        text.textOut("12")
        text.setFont("Helvetica", 10)
        text.setRise(0)
        text.textOut(" for the A380.")
        page.drawText(text)

    pdf_file(tmp_path / "pilots.pdf", draw)
    (document,) = load(tmp_path)[0].values()
    assert document.text.endswith("Pilots wait^12 for the A380.")


def test_pdf_lists_and_code(tmp_path):
    def draw(page):
        y = draw_lines(
            page, 60, 700, ["The port needs:", "• two tugs with a crew that", "  knows the mole", "• one pilot"]
        )
        draw_lines(page, 60, y, ["for ship in ships:", "    moor(ship)"], "Courier")

    pdf_file(tmp_path / "needs.pdf", draw)
    (document,) = load(tmp_path)[0].values()
    assert document.title == "needs"
    assert document.text == (
        "<!-- page 1 -->\n\nThe port needs:\n\n- two tugs with a crew that knows the mole\n- one pilot\n\n"
        "```\nfor ship in ships:\n    moor(ship)\n```"
    )


def test_lines_in_columns_are_a_table_and_a_cell_may_go_on_below(tmp_path):
    def draw(page):
        rows = (("Tugs", "4", "strong"), ("Pilots", "12", "all of the mas-"), ("", "", "ter"), ("Cranes", "3", "old"))
        for y, row in zip((700, 688, 676, 664), rows, strict=True):
            for x, cell in zip((60, 200, 300), row, strict=True):
                draw_lines(page, x, y, [cell])

    pdf_file(tmp_path / "fleet.pdf", draw)
    (document,) = load(tmp_path)[0].values()
    table = "| Tugs | 4 | strong |\n| Pilots | 12 | all of the master |\n| Cranes | 3 | old |"
    assert document.text == f"<!-- page 1 -->\n\n{table}"


def test_a_paragraph_continues_on_the_next_page(tmp_path):
    def draw(page):
        draw_lines(page, 60, 100, ["The pilot boards outside the mole when the wind is"])
        page.showPage()
        draw_lines(
            page, 60, 770, ["below seven, and the tugs wait inside the port.", "He leaves the ship at the quay."]
        )

    pdf_file(tmp_path / "pilot.pdf", draw, title="Pilot Rules")
    (document,) = load(tmp_path)[0].values()
    assert document.title == "Pilot Rules"
    text = "<!-- page 1 -->\n\nThe pilot boards outside the mole when the wind is <!-- page 2 --> below seven, and"
    assert document.text.startswith(text)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([("Of an", 0), ("yo", 2.5), ("ther", 0), ("sp", 2.2), ("ort", 0)], "Of any others port"),
        ([("A", 0), ("c", 0, 2.5), ("olon", 0)], "A colon"),
        ([("It is a", 0), ("b", 0, 2.5), ("i", 0, 2.5), ("t", 0)], "It is a b it"),
        ([("W", 0), ("A", 0, -1.2), ("VES", 0, -1.3), ("roll", 0, 0.9)], "WAVESroll"),
        ([("HARBOUR OF BERGEN", 2.5)], "HARBOUR OF BERGEN"),
        ([("The ", 0), ("harbour", 2), (" of Bergen", 0)], "The harbour of Bergen"),
        ([("The giv ", 0), ("en wind", 0, -2.5)], "The given wind"),
        ([("Show", 0, 0, "Times-Bold"), ("version", 0, 2.5), ("s", 0, 0, "Courier"), (".", 0)], "Show versions."),
        (
            [("港口", 0, 0, "STSong-Light"), ("的引", 2.5, 0, "STSong-Light"), ("水员", 0, 0, "STSong-Light")],
            "港口的引水员",
        ),
    ],
    ids=[
        "space as letter spacing",
        "one letter",
        "letters",
        "kerning",
        "heading",
        "emphasis",
        "overdrawn",
        "fonts",
        "cjk",
    ],
)
def test_words_of_a_pdf_are_separated_where_the_page_separates_them(tmp_path, runs, expected):
    def draw(page):
        x = 60
        for text, letter_spacing, gap, font in ((*run, *(0, "Times-Roman")[len(run) - 2 :]) for run in runs):
            page.setFont(font, 10)
            page.drawString(x + gap, 700, text, charSpace=letter_spacing)
            x += gap + page.stringWidth(text, font, 10) + letter_spacing * (len(text) - 1)

    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    pdf_file(tmp_path / "words.pdf", draw)
    (document,) = load(tmp_path)[0].values()
    assert plain(document.text).strip() == expected


def test_pdfs_that_cannot_be_read_say_why(tmp_path):
    pdf_file(tmp_path / "good.pdf", lambda page: page.drawString(60, 700, "Good."))
    good = (tmp_path / "good.pdf").read_bytes()
    pdf_file(tmp_path / "locked.pdf", lambda page: page.drawString(60, 700, "Secret."), encrypt="secret")
    pdf_file(tmp_path / "scan.pdf", lambda page: page.rect(60, 60, 100, 100))
    (tmp_path / "cut.pdf").write_bytes(good[:200])
    found, problems = load(tmp_path)
    assert list(found) == ["good.pdf"]
    reasons = {problem.path.rpartition("/")[2]: problem.reason for problem in problems}
    assert reasons["locked.pdf"] == "encrypted: save a copy without a password"
    assert reasons["scan.pdf"] == "no text, only images: run OCR first"
    assert reasons["cut.pdf"].startswith("damaged PDF")


# -- office files


def test_word_headings_lists_tables_and_links(tmp_path):
    document = docx.Document()
    document.core_properties.title = "Word Document"
    document.add_heading("Billing Handbook", 0)
    document.add_heading("Prices", 1)
    document.add_paragraph("Prices come from the Tariff Engine.")
    document.add_paragraph("by weight", style="List Bullet")
    document.add_paragraph("by day", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip(
        (c for row in table.rows for c in row.cells), ("Owner", "Since", "Joaquim | Prates", "2018"), strict=True
    ):
        cell.text = text
    document.styles.add_style("Source Code", 1)
    document.add_paragraph("for day in days:", style="Source Code")
    document.add_paragraph("    bill(day)", style="Source Code")
    document.save(tmp_path / "billing.docx")
    (found,) = load(tmp_path)[0].values()
    assert found.title == "Billing Handbook"
    assert found.text == (
        "# Billing Handbook\n\n# Prices\n\nPrices come from the Tariff Engine.\n\n- by weight\n- by day\n\n"
        "| Owner | Since |\n|---|---|\n| Joaquim \\| Prates | 2018 |\n\n```\nfor day in days:\n    bill(day)\n```"
    )


def test_slides_are_pages_with_titles_text_tables_and_notes(tmp_path):
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Harbour Review"
    frame = first.placeholders[1].text_frame
    frame.text = "Two berths were added"
    frame.add_paragraph().text = "One crane failed"
    first.notes_slide.notes_text_frame.text = "Mention the crane."
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Numbers"
    table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for i, text in enumerate(("Month", "Ships", "May", "112")):
        table.cell(i // 2, i % 2).text = text
    deck.save(tmp_path / "review.pptx")
    (found,) = load(tmp_path)[0].values()
    assert found.title == "Harbour Review"
    assert found.text == (
        "<!-- page 1 -->\n\n## Harbour Review\n\n- Two berths were added\n- One crane failed\n\n"
        "Notes: Mention the crane.\n\n<!-- page 2 -->\n\n## Numbers\n\n| Month | Ships |\n|---|---|\n| May | 112 |"
    )


def test_a_workbook_gives_a_document_per_row_of_a_table_and_per_other_sheet(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Ships"
    for row in (["id", "name", "length"], [7, "Marie Celeste", 31.0], [9, "Flying Cloud", 70.5]):
        sheet.append(row)
    notes = book.create_sheet("Notes")
    notes.append(["Measured at the waterline."])
    book.save(tmp_path / "fleet.xlsx")
    found, problems = load(tmp_path)
    assert problems == []
    assert {d.id: (d.title, d.text) for d in found.values()} == {
        "fleet.xlsx#Ships!7": ("Marie Celeste", "id: 7.\nname: Marie Celeste.\nlength: 31."),
        "fleet.xlsx#Ships!9": ("Flying Cloud", "id: 9.\nname: Flying Cloud.\nlength: 70.5."),
        "fleet.xlsx#Notes!text": ("Notes", "## Notes\n\n| Measured at the waterline. |"),
    }
    assert found["fleet.xlsx#Ships!7"].metadata["sheet"] == "Ships"


# -- mail, books, notebooks


def test_mail_is_read_without_the_message_below_it_and_without_signatures_and_patches_are_code(tmp_path):
    head = "From: ada@port.example\nSubject: Re: Crane 4\nMessage-ID: <2@port>\n"
    reply = "In-Reply-To: <1@port>\n\n"
    bodies = {
        "top.eml": f"{head}{reply}It is repaired.\n\nOn Monday, 4 March,\nBo wrote:\n> Is crane 4 broken?\n>\n> Bo\n",
        "outlook.eml": f"{head}{reply}It is repaired.\n\n-----Original Message-----\nFrom: Bo\n\nIs crane 4 broken?\n",
        "between.eml": f"{head}{reply}> Is crane 4 broken?\n\nNo.\n\n> And crane 5?\n\nYes.\n",
        "quoted.eml": f"{head}{reply}> Is crane 4 broken?\n",
        "first.eml": f"{head}\nShe said:\n\n> Crane 4 is broken.\n",
        "signed.eml": f"{head}\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nIt is repaired.\n"
        "-----BEGIN PGP SIGNATURE-----\n\niQIzBAEBCAAdFiEE\n-----END PGP SIGNATURE-----\n",
        "patch.eml": f"{head}\n# Mend it.\n\nSigned-off-by: Bo\n---\ndiff --git a/a.c b/a.c\n+[turn](left)\n-- \n2.7\n",
    }
    for name, text in bodies.items():
        (tmp_path / name).write_text(text)
    texts = {name: mail.text.rpartition("ada@port.example\n\n")[2] for name, mail in load(tmp_path)[0].items()}
    assert texts == {
        "top.eml": "It is repaired.",
        "outlook.eml": "It is repaired.",
        "between.eml": "> Is crane 4 broken?\n\nNo.\n\n> And crane 5?\n\nYes.",
        "quoted.eml": "> Is crane 4 broken?",
        "first.eml": "She said:\n\n> Crane 4 is broken.",
        "signed.eml": "It is repaired.",
        "patch.eml": "\\# Mend it.\n\nSigned-off-by: Bo\n\n---\n"
        "```diff\ndiff --git a/a.c b/a.c\n+[turn](left)\n```\n-- \n2.7",
    }


def test_includes_of_mdbook_are_no_text(tmp_path):
    (tmp_path / "listing.md").write_text(
        "# Listing\n\nSee below.\n\n```rust\n{{#rustdoc_include ../a.rs:here}}\n```\n\n{{#include b.md}}\n"
    )
    (document,) = load(tmp_path)[0].values()
    assert "include" not in document.text


def test_mail_has_its_headers_and_its_text(tmp_path):
    message = EmailMessage()
    message["Subject"] = "Re: Crane 4 is down"
    message["From"] = "Rosa Millán <rosa@example.org>"
    message["To"] = "harbour@example.org"
    message["Date"] = "Mon, 04 Mar 2024 10:00:00 +0000"
    message.set_content("Ersatz für Kran 4 kommt morgen.")
    message.add_alternative("<p>Ersatz</p>", subtype="html")
    message.add_attachment(b"...", maintype="application", subtype="pdf", filename="crane.pdf")
    (tmp_path / "crane.eml").write_bytes(message.as_bytes())
    page = EmailMessage()
    page["Subject"] = "Tides"
    page.set_content("<p>See <a href='https://example.org/t'>the table</a>.</p>", subtype="html")
    (tmp_path / "tides.eml").write_bytes(page.as_bytes())
    (tmp_path / "none.eml").write_text("To: unlisted-recipients:; (none)\n\nThe library cannot parse this header.")
    found, _ = load(tmp_path)
    assert found["none.eml"].metadata["to"] == "unlisted-recipients:; (none)"
    crane = found["crane.eml"]
    assert crane.title == "Crane 4 is down"
    assert crane.text == (
        "# Re: Crane 4 is down\n\nFrom: Rosa Millán <rosa@example.org>\nTo: harbour@example.org\n"
        "Date: Mon, 04 Mar 2024 10:00:00 +0000\n\nAttachments: crane.pdf\n\nErsatz für Kran 4 kommt morgen."
    )
    assert crane.metadata["from"] == "Rosa Millán <rosa@example.org>"
    assert marked(found["tides.eml"], "link") == [("https://example.org/t", "the table")]


def epub(path, chapters, title="The Harbour Book"):
    items = "".join(
        f'<item id="c{i}" href="{name}" media-type="application/xhtml+xml"/>' for i, name in enumerate(chapters)
    )
    refs = "".join(f'<itemref idref="c{i}"/>' for i in range(len(chapters)))
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        )
        book.writestr(
            "OEBPS/book.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
            f"<dc:title>{title}</dc:title></metadata><manifest>{items}</manifest><spine>{refs}</spine></package>",
        )
        for name, text in chapters.items():
            book.writestr(f"OEBPS/{name}", text)


def test_the_chapters_of_a_book_are_one_document(tmp_path):
    epub(
        tmp_path / "harbour.epub",
        {"one.xhtml": "<h1>Tides</h1><p>See <a href='two.xhtml#q'>quays</a> and <a href='two.xhtml'>more</a>.</p>",
         "two.xhtml": "<h1>Berths</h1><p id='q'>A quay is long.</p>"},
    )  # fmt: skip
    (book,) = load(tmp_path)[0].values()
    assert book.title == "The Harbour Book"
    assert book.text == (
        '<a id="one.xhtml"></a>\n\n# Tides\n\nSee [quays](#q) and [more](#two.xhtml).\n\n'
        '<a id="two.xhtml"></a>\n\n# Berths\n\n<a id="q"></a>A quay is long.'
    )


def test_notebooks_have_their_prose_and_their_code(tmp_path):
    cells = [
        {"cell_type": "code", "source": ["# setup\n", "import tides"], "outputs": []},
        {"cell_type": "markdown", "source": "# Tide tables\n\nHow to read them."},
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    (tmp_path / "tides.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    (found,) = load(tmp_path)[0].values()
    assert found.title == "Tide tables"
    assert found.text == "```python\n# setup\nimport tides\n```\n\n# Tide tables\n\nHow to read them."


# -- rows


def test_every_column_is_text_and_a_row_is_called_by_a_column_such_as_name(tmp_path):
    (tmp_path / "hosts.csv").write_text(
        "status,name,address,note\nopen,db-one,https://one.example,\nopen,db-two,https://two.example,slow\n"
    )
    (tmp_path / "pairs.csv").write_text("a,a\n1,2\n")
    found, problems = load(tmp_path)
    assert problems == []
    assert {d.id: (d.title, d.text) for d in found.values()} == {
        "hosts.csv#1": ("db-one", "status: open.\nname: db-one.\naddress: https://one.example."),
        "hosts.csv#2": ("db-two", "status: open.\nname: db-two.\naddress: https://two.example.\nnote: slow."),
        "pairs.csv#1": ("pairs 1", "a: 1.\na (2): 2."),
    }


def test_fields_beside_prose_are_searchable(tmp_path):
    row = {
        "id": "k1",
        "title": "Keys",
        "text": "Rotate keys every month.",
        "owner": "Mara Lindqvist",
        "tags": ["auth", "ops"],
    }
    (tmp_path / "notes.jsonl").write_text(json.dumps(row) + "\n")
    (document,) = load(tmp_path)[0].values()
    assert (document.id, document.title) == ("notes.jsonl#k1", "Keys")
    assert document.text == "Rotate keys every month.\n\nowner: Mara Lindqvist.\ntags: auth, ops."
    assert document.metadata["owner"] == "Mara Lindqvist"


def test_nested_json_becomes_lines_that_name_their_path(tmp_path):
    value = {
        "service": {"name": "Billing", "ports": [80, 443], "owners": [{"name": "Rosa", "since": 2018}, {"since": 2020}]}
    }
    (tmp_path / "service.json").write_text(json.dumps(value))
    (tmp_path / "page.json").write_text(json.dumps({"site": "Harbour", "items": [{"name": "A", "text": "One."}]}))
    deep = "[" * 500 + '"bottom"' + "]" * 500
    (tmp_path / "deep.json").write_text(f'{{"a": {deep}}}')
    found, _ = load(tmp_path)
    assert found["service.json"].text == (
        "service name: Billing.\nservice ports: 80, 443.\nservice owners Rosa name: Rosa.\n"
        "service owners Rosa since: 2018.\nservice owners 2 since: 2020."
    )
    assert found["page.json"].text == "site: Harbour."
    assert found["page.json#1"].text == "One."
    assert found["deep.json"].text.endswith("1: bottom.")


# -- broken files


def _zip(**members):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as package:
        for name, text in members.items():
            package.writestr(name, text)
    return data.getvalue()


@pytest.mark.parametrize("extension", sorted(FORMATS))
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02binary" * 100,
        b"\xff\xfe\xfa" * 50,
        b"x" * 1_000_000,
        b"PK\x03\x04 cut",
        _zip(other="text"),
        b"%PDF-1.4",
        b"{",
        b" \n",
    ],
    ids=["binary", "encoding", "long line", "cut zip", "other zip", "cut pdf", "brace", "blank"],
)
def test_no_file_stops_a_run(tmp_path, extension, data):
    (tmp_path / f"x{extension}").write_bytes(data)
    (tmp_path / "good.md").write_text("# Good\n\nGood.")
    found, problems = load(tmp_path)
    assert "good.md" in found
    assert len(found) > 1 or problems
    assert all("\n" not in str(problem) for problem in problems)


def test_truncated_office_files_are_reported(tmp_path):
    docx.Document().save(tmp_path / "a.docx")
    pptx.Presentation().save(tmp_path / "a.pptx")
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    epub(tmp_path / "a.epub", {"one.xhtml": "<p>One.</p>"})
    for path in list(tmp_path.iterdir()):
        path.write_bytes(path.read_bytes()[:-300])
    (tmp_path / "old.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 500)
    found, problems = load(tmp_path)
    assert found == {}
    reasons = sorted(problem.reason for problem in problems)
    assert reasons[0] == "encrypted, or in the format before 2007: save it again without a password"
    assert len(reasons) == 5
    assert all("damaged" in reason for reason in reasons[1:])


def test_reading_imports_no_library_before_it_is_needed():
    script = (
        "import sys; from graphrag_apps.documents import load_documents; "
        "print([m for m in ('docutils', 'selectolax', 'pypdfium2', 'docx', 'pptx', 'openpyxl') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )


def test_a_very_long_line_of_rst_is_kept_as_it_is(tmp_path):
    (tmp_path / "a.rst").write_text(f"Title\n=====\n\nAlpha is here.\n\n{'*word ' * 5_000}\n")
    (document,) = load_documents(tmp_path)
    assert document.title == "Title"
    assert "Alpha is here." in document.text
    assert document.text.count("word") == 5_000


@pytest.mark.parametrize(
    "steps",
    [
        "<ul class='docnav'><li><a href='a.html'><strong>Prev</strong></a></li><li>Handbook</li></ul>",
        "<ul><li><a href='a'><b>Prev</b>Chapter 11</a></li><li><a href='b'><b>Next</b>Chapter 12</a></li></ul>",
        "<table><tr><td><a rel='prev' href='a'>Tides</a></td><td><a rel='next' href='b'>Cranes</a></td></tr></table>",
        "<p>Next: <a rel='next' href='a'>Tides</a>, Previous: <a rel='prev' href='b'>Cranes</a></p>",
    ],
)
def test_links_to_the_pages_before_and_after_are_no_text(steps):
    page = f"<html><body>{steps}<h1>Harbour</h1><p>The harbour opens at six.</p>{steps}</body></html>"
    assert html_content(page).text == "# Harbour\n\nThe harbour opens at six."


BAR = "".join(f"<td>[<a href='{n}.html'> {name} </a>]</td>" for n, name in enumerate(("&lt;&lt;", "&lt;", "Up", "?")))


@pytest.mark.parametrize(
    "bar",
    [
        f"<table class='header'><tr>{BAR}<td> &nbsp; </td><td>[<a href='i.html'>Index</a>]</td></tr></table>",
        (
            "<div><p>Next: <a href='#a' rel='next'>Tides</a>, Up: <a href='#b' rel='up'>Port</a> &nbsp; [<a href='#c' "
            "rel='contents'>Contents</a>][<a href='#d' rel='index'>Index</a>]</p></div>"
        ),
        "<p><a href='a.html'>Home</a> &raquo; <a href='b.html'>Manual</a> &raquo; Harbour</p>",
        "<div><a href='a.html'>Port</a> &gt; <a href='b.html'>Berths</a> &gt; </div>",
    ],
    ids=["texi2html", "texinfo", "breadcrumb", "breadcrumb of links"],
)
def test_navigation_bars_are_no_text_wherever_they_stand(bar):
    sections = "".join(f"{bar}<h2>Berth {n}</h2><p>Ships moor at berth {n} for a day.</p><hr>" for n in range(30))
    text = "\n\n".join(f"## Berth {n}\n\nShips moor at berth {n} for a day." for n in range(30))
    assert html_content(f"<html><body><h1>Harbour</h1>{sections}{bar}</body></html>").text == f"# Harbour\n\n{text}"


@pytest.mark.parametrize(
    "text",
    [
        "Next: <a href='a.html'>moor</a> the ship, and <a href='b.html'>call</a> the pilot.",
        "See the <a href='a.html'>Index</a> and the <a href='b.html'>Contents</a>.",
        "<a href='a.html'>Tides</a>, <a href='b.html'>Berths</a>",
        "<a href='a.html'>x</a> &gt; 3 holds for every <a href='b.html'>berth</a>.",
    ],
)
def test_links_in_a_sentence_are_text(text):
    filler = "<p>Ships moor here.</p>" * 30
    steps = (
        "<p><a href='a'>Prev</a> <a href='b'>Next</a></p>" * 12
    )  # those at the start and the end are looked at closer
    page = f"<html><body>{steps}{filler}<p>{text}</p>{filler}{steps}</body></html>"
    assert len(html_content(page).text.split("\n\n")) == 61


def test_a_placeholder_is_no_inline_code():
    page = "<p>Run <code>apt</code> with <em class='replaceable'><code>package</code></em>.</p>"
    assert html_content(page).text == "Run `apt` with package."
