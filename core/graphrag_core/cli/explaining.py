"""Why a question got its answer, in words and small bars."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from graphrag_core import Fact, Hit, Result, Step
from graphrag_core.cli.showing import CHANNELS
from graphrag_core.cli.terminal import print_indented

_BAR = 24
_MOST_FACTS = 8
_MARK = {"entity": "", "fact": "says: ", "chunk": "passage: "}


def show_explanation(result: Result, console: Console) -> None:
    """Print what the question names, how it was searched, each hit with its path, and the facts."""
    console.print(Text(result.question, "question"))
    console.print(_about(result))
    for rank, hit in enumerate(result.hits, 1):
        console.print()
        console.print(
            Text.assemble(f"{rank:>2}  ", (hit.chunk.title or hit.chunk.id, "name"), (f"  {hit.chunk.id}", "quiet"))
        )
        print_indented(console, _shares(hit))
        if len(hit.path) > 1:
            console.print(Padding(path_tree(hit.path), (0, 0, 0, 4)))
    if result.facts:
        console.print(Text("\nFacts that speak for it", "name"))
        for fact in result.facts[:_MOST_FACTS]:
            console.print(Text("  ·", "graph"), end="")
            print_indented(console, _fact(fact, result), 4, first=1)
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in result.trace.stages.items())
    console.print(Text(f"\n{result.trace.total:.1f} ms: {stages}", "quiet"))


def _fact(fact: Fact, result: Result) -> Text:
    """Return a fact in words, with its subject in front where the words leave it to the title."""
    said = " ".join(fact.text.split())
    subject = result.known.get(fact.entities[0]) if fact.entities else None
    if subject is None or subject.name.casefold() in said.casefold():
        return Text(said)
    return Text.assemble((f"{subject.name}: ", "graph"), said)


def _about(result: Result) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="quiet", no_wrap=True)
    grid.add_column()
    named = ", ".join(_with_type(entity.name, entity.type) for entity in result.entities)
    grid.add_row("names", named or "nothing the index knows")
    grid.add_row("method", f"{result.method}, graph trusted {result.confidence:.2f}")
    for label, remark in (("route", result.route), ("graph", result.expansion_skipped), ("without", result.fallback)):
        if remark:
            grid.add_row(label, remark)
    return grid


def _with_type(name: str, kind: str) -> str:
    return f"{name} ({kind})" if kind else name


def _shares(hit: Hit) -> Text:
    line = Text()
    for name in CHANNELS:
        if (channel := hit.channels.get(name)) is not None:
            line.append("  " if line else "")
            line.append("━" * max(round(channel.share * _BAR), 1), name)
            line.append(f" {name} {channel.share:.0%}, #{channel.rank}")
    return line


def path_tree(path: tuple[Step, ...], *below: Text) -> Tree:
    """Return a path as a tree, each step below the one that led to it, and more below the last."""
    steps = path[1:]
    tree = Tree(_step(steps[0]), guide_style="quiet")
    branch = tree
    for step in steps[1:]:
        branch = branch.add(_step(step))
    for text in below:
        branch.add(text)
    return tree


def _step(step: Step) -> Text:
    text = " ".join(step.text.split())
    return Text.assemble((_MARK.get(step.kind, ""), "quiet"), (text, "graph" if step.kind == "entity" else ""))
