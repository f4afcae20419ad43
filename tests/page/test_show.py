"""A result shows itself: in a notebook, in a file, in a browser."""

from __future__ import annotations

import base64
import sys
import webbrowser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from answers import ALL, EVIL, PORTAL
from parsed import parse


@pytest.fixture
def notebook(monkeypatch):
    """An IPython with a kernel, as far as it is asked: what it displays is noted."""
    shown = []
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.display = SimpleNamespace(display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return shown


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_a_notebook_gets_the_same_page_in_a_sandbox(answer):
    frame = parse(answer._repr_html_()).one("iframe")
    assert frame.attributes["srcdoc"] == answer.html()
    assert frame.attributes["sandbox"] == "allow-scripts"


def test_a_viewer_without_frames_and_styles_shows_a_picture_and_the_words():
    root = parse(PORTAL._repr_html_())
    assert root.one("pre").text == PORTAL.explain()
    kind, _, data = root.one("img").attributes["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode().startswith("<svg ")
    assert root.one("style").text == ".hybrid-graphrag-still{display:none}"


def test_hostile_text_stays_text_in_a_notebook():
    root = parse(EVIL._repr_html_())
    assert [element.name for element in root.all()] == ["style", "div", "img", "pre", "iframe"]


def test_in_a_notebook_it_is_displayed(notebook):
    assert PORTAL.show() is None
    assert notebook == [PORTAL]


def test_a_file_that_was_asked_for_is_written_in_a_notebook_too(notebook, tmp_path, capsys):
    assert PORTAL.show(tmp_path / "why.html") == tmp_path / "why.html"
    assert not notebook
    assert capsys.readouterr() == ("", "")


def test_elsewhere_it_goes_to_a_file_and_says_which(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = PORTAL.show()
    assert path.parent == tmp_path
    assert path.read_text("utf-8") == PORTAL.html()
    assert str(path) in capsys.readouterr().err


def test_a_terminals_ipython_is_no_notebook(monkeypatch, notebook, tmp_path):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", SimpleNamespace)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert isinstance(PORTAL.show(), Path)
    assert not notebook


def test_the_browser_is_opened_only_when_asked_for(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    PORTAL.show(tmp_path / "why not.html")
    assert not opened
    PORTAL.show(tmp_path / "why not.html", browser=True)
    assert opened == [(tmp_path / "why not.html").as_uri()]
