"""What documents, file names and errors say does nothing on a terminal, whatever the command."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest
from hostile_text import MARKUP, TEXT, check_terminal

import graphrag_apps.cli
from graphrag_apps.cli import render
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.testing import CountingEmbedder

SOURCES = sorted(Path(graphrag_apps.cli.__file__).parent.glob("*.py"))
NAME = "Evil \x1b[31m\x1b]8;;http://e\x07\x9b2J\u202e [/x] [bold] Corp"


@pytest.fixture
def hostile(tmp_path):
    """A folder with hostile names and texts."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "\x1b]0;title\x07\u202efdp.md").write_text(f"# Auth {NAME}\n\n{TEXT}\n\nAuth Service calls {NAME}.\n")
    (folder / "[bold] [italic].md").write_text(f"# {MARKUP}\n\nAuth Service depends on the Keyring. {TEXT}\n")
    (folder / "\x1b[2J.json").write_text("{")
    (folder / "\x9b2J.pdf").write_bytes(b"%PDF-1.4 broken")
    return folder


def test_no_command_lets_text_act(run, hostile):
    commands = [
        ("index", hostile),
        ("index", hostile, "--metadata", "tenant=[/x]"),
        ("index", hostile / "\x1b[1mnone"),
        ("stats",),
        ("stats", "--json"),
        ("verify",),
        ("verify", "--json"),
        ("graph", "entities"),
        ("graph", "entities", "--json"),
        ("graph", "relations"),
        ("graph", "relations", "--json"),
        ("query", "Auth Service Keyring"),
        ("query", "Auth Service Keyring", "--json"),
        ("query", f"Auth {NAME}", "--method", "agentic"),
        *(
            ("query", "Auth Service Keyring", "--context", style)
            for style in ("graph", "passages", "narrative", "both")
        ),
        ("query", "Keyring", "--where", "\x1b[31m=x"),
        ("ask", f"Who calls Auth {NAME}?"),
        ("ask", "What calls the Keyring?", "--json"),
        ("config",),
        ("config", "--set", "\x1b[31m=1"),
        ("query", "Keyring", "--set", "gate.\x1b[31m=1"),
        ("export", "\x1b[31m.graphml"),
        ("export", "\x1b[31m.none"),
        ("compare", "\x1b[31m.jsonl"),
        ("key", "new", "--name", NAME),
        ("key", "new", "--name", "a", "--where", "\x1b[31m=[/x]"),
        ("serve", "--keys", "\x1b[31m"),
        ("copy", "\x1b[31m", "postgresql://\x1b[31m@127.0.0.1:1/a"),
        ("delete", "\x1b[31m*"),
        ("explain", f"Auth {NAME}"),
        ("explain", "Keyring", "--html", "\x1b[31m.html"),
        ("graph", "edit", "add", NAME, "[/x]", TEXT),
        ("graph", "edit", "rename", "Keyring", f"Keyring {NAME}"),
        ("graph", "edit", "list"),
        ("graph", "edit", "list", "--json"),
        ("graph", "edit", "delete", "\x1b[31m"),
        ("graph", "edit", "undo", "1"),
        ("graph", "edit", "undo", "7"),
        ("delete", NAME),
        ("stats", "--kb", "\x1b[31m[/x]"),
        ("nonsense-\x1b[31m",),
    ]
    for command in commands:
        shown = run(*command)
        check_terminal(shown.stdout)
        if shown.exit_code != 2:  # usage errors repeat the caller's own words
            check_terminal(shown.stderr)


def test_stats_of_names_that_look_like_markup(run, tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb") as index:
        index.memory.remember("[/x]", "[bold]", "[/bold] [link=http://e]l[/link]")
        index.memory.remember("[/x] Corp", "[/]", "Keyring")
    for command in (("stats",), ("graph", "entities"), ("graph", "relations")):
        shown = run(*command)
        assert shown.exit_code == 0, shown.stderr
        assert "[/x] Corp" in shown.stdout or command == ("stats",)


def test_logs_and_errors(capsys):
    record = logging.LogRecord("graphrag_apps.documents", logging.WARNING, "", 0, "%s", (NAME,), None)
    render.LogHandler().emit(record)
    render.print_error(NAME)
    render.stdout().print(NAME)
    render.print_json({"name": NAME})
    shown = capsys.readouterr()
    check_terminal(shown.out)
    check_terminal(shown.err)
    assert "[/x] [bold]" in shown.err


def _name(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _is_neutral(node: ast.expr) -> bool:
    """Whether an expression is a constant, numbers in words, or neutralised."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) or part.format_spec is not None for part in node.values)
    return isinstance(node, ast.Call) and _name(node.func).rpartition(".")[2] in ("for_terminal", "json_for_terminal")


FORBIDDEN = ("print", "rich.print", "typer.echo", "typer.secho", "click.echo", "click.secho", "tqdm.write", "Console")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_nothing_is_printed_past_the_neutralising_console(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "rich":
            assert "print" not in {alias.name for alias in node.names}, path.name
        if not isinstance(node, ast.Call):
            continue
        place, called = f"{path.name}:{node.lineno}", _name(node.func)
        assert called not in FORBIDDEN, f"{place}: use render.stdout().print, which neutralises what it prints"
        if called in ("sys.stdout.write", "sys.stderr.write", "input"):
            fine = called == "input" or all(map(_is_neutral, node.args))
            assert fine, f"{place}: pass the text through for_terminal"
        if called == "tqdm" or called.endswith((".set_description_str", ".set_description", ".set_postfix_str")):
            texts = [*node.args, *(word.value for word in node.keywords if word.arg in ("desc", "postfix", "unit"))]
            texts = texts if called != "tqdm" else [one for one in texts if not isinstance(one, ast.Name)]
            assert all(map(_is_neutral, texts)), f"{place}: a progress bar shows text that is not neutralised"


def test_the_console_is_the_neutralising_one():
    assert isinstance(render.stdout(), render.SafeConsole)
    assert isinstance(render.stderr(), render.SafeConsole)
    assert not render.stdout()._markup


def test_progress_of_the_library_shows_numbers_only(capsys):
    with KnowledgeIndex(CountingEmbedder(), progress=True) as index:
        index.add([Document(f"{number}\x1b[31m", f"{TEXT} {number}", NAME) for number in range(30)])
    shown = capsys.readouterr()
    assert "\x1b[31m" not in shown.err
    assert "\u202e" not in shown.err
