"""A result shows itself: in a notebook, in a file, in a browser."""

from __future__ import annotations

import base64
import sys
import webbrowser
from types import ModuleType, SimpleNamespace

import pytest
from answers import PORTAL
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


def test_a_viewer_without_frames_and_styles_shows_a_picture_and_the_words():
    root = parse(PORTAL._repr_html_())
    assert root.one("pre").text == PORTAL.explain()
    kind, _, data = root.one("img").attributes["src"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode().startswith("<svg ")
    assert root.one("style").text == ".hybrid-graphrag-still{display:none}"


def test_in_a_notebook_it_is_displayed(notebook):
    assert PORTAL.show() is None
    assert notebook == [PORTAL]


def test_elsewhere_it_goes_to_a_file_and_says_which(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = PORTAL.show()
    assert path.parent == tmp_path
    assert path.read_text("utf-8") == PORTAL.html()
    assert str(path) in capsys.readouterr().err


def test_the_browser_is_opened_only_when_asked_for(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    PORTAL.show(tmp_path / "why not.html")
    assert not opened
    PORTAL.show(tmp_path / "why not.html", browser=True)
    assert opened == [(tmp_path / "why not.html").as_uri()]
