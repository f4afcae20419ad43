"""What documents, file names and errors say does nothing on a terminal, whatever the command."""

from __future__ import annotations

import pytest
from hostile_text import MARKUP, TEXT, check_terminal

from graphrag_core import KnowledgeIndex

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
            ("query", "Auth Service Keyring", "--context", "500", "--set", f"context.style={style}")
            for style in ("graph", "passages", "narrative", "both")
        ),
        ("query", "Keyring", "--filter", "\x1b[31m=x"),
        ("ask", f"Who calls Auth {NAME}?"),
        ("ask", "What calls the Keyring?", "--json"),
        ("config",),
        ("query", "Keyring", "--set", "gate.\x1b[31m=1"),
        ("export", "\x1b[31m.graphml"),
        ("export", "\x1b[31m.none"),
        ("compare", "\x1b[31m.jsonl"),
        ("key", "new", "--name", NAME),
        ("key", "new", "--name", "a", "--filter", "\x1b[31m=[/x]"),
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
