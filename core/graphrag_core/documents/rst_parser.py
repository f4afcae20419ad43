"""Parse reStructuredText with docutils, including what Sphinx and its extensions add to it.

Every directive and role becomes a node, so that none is unknown. What they mean is decided in
:mod:`~graphrag_core.documents.rst_text`, which writes the tree. No file is opened and no raw HTML is read.
"""

from __future__ import annotations

import re
import threading
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers import rst
from docutils.parsers.rst import directives, states
from docutils.utils import new_document

from graphrag_core.documents.rst_text import ADMONITIONS, CODE, SKIPPED

_OPTION = re.compile(r":[A-Za-z_][\w -]*:(?:\s|$)")
_BUILT_IN = set("table csv-table list-table replace unicode date".split())
"""Directives that docutils runs itself."""

_find_built_in = directives.directive
_lock = threading.Lock()
_defaults = get_default_settings(rst.Parser)  # made once: it is slow
_defaults.is_graphrag_reader = True
_defaults.file_insertion_enabled = _defaults.raw_enabled = _defaults.warning_stream = False
_defaults.report_level, _defaults.halt_level = 5, 6


def parse_rst(text: str) -> Any:
    """Parse a text into a docutils tree."""
    document = new_document("", _defaults.copy())
    inliner = states.Inliner()
    inliner.interpreted = _read_role
    with _lock:
        # docutils looks directives up in a function of a module; Sphinx replaces it in the same way.
        directives.directive = _find_directive
        try:
            rst.Parser(inliner=inliner).parse(text, document)
        finally:
            directives.directive = _find_built_in
    return document


def _read_role(rawsource: str, text: str, role: str, _: int) -> tuple[list[nodes.Node], list[Any]]:
    """Turn a role into a node that the renderer understands."""
    inner = rawsource[rawsource.find("`") + 1 : rawsource.rfind("`")] if "`" in rawsource else text
    return [nodes.inline(rawsource, inner.replace("\\ ", "").replace("\\", ""), role=role or "")], []


def _find_directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
    is_ours = hasattr(document.settings, "is_graphrag_reader") and name.lower() not in _BUILT_IN
    return (_Directive, []) if is_ours else _find_built_in(name, language, document)


class _Directive(rst.Directive):  # type: ignore[misc]
    """Handles every directive name with any arguments and options, so that unknown directives do not fail."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        node = nodes.container(directive=self.name.lower())
        argument, content = self._split()
        node["argument"] = argument
        name = self.name.lower().rpartition(":")[2]
        if name in SKIPPED:
            return []
        if name in CODE:
            node["code"] = "\n".join(content)
        elif name == "glossary":
            self._parse_glossary(content, node)
        elif content:
            self._parse(content, node)
        return [node]

    def _parse_glossary(self, content: Any, node: Any) -> None:
        """Parse terms, which may share a definition, and their definitions, which are indented."""
        glossary = nodes.definition_list()
        start = 0
        while start < len(content):
            end = next((i for i in range(start, len(content)) if content[i][:1].isspace()), len(content))
            after = next((i for i in range(end, len(content)) if content[i][:1].strip()), len(content))
            item = nodes.definition_list_item()
            terms = (line.partition(" : ")[0] for line in content[start:end] if line.strip()[:3] not in ("", ".. "))
            item += [nodes.term("", "", *self.state.inline_text(line, self.lineno)[0]) for line in terms]
            definition = nodes.definition()
            block = content[end:after]
            block.trim_left(min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0))
            self._parse(block, definition)
            item += definition
            glossary += item
            start = after
        node += glossary

    def _parse(self, content: Any, node: Any) -> None:
        """Parse nested lines. They may contain headings, as in Sphinx."""
        memo = self.state.memo
        styles, level = memo.title_styles, memo.section_level
        memo.title_styles, memo.section_level = [], 0
        offset = self.content_offset + len(self.content) - len(content)
        try:
            self.state.nested_parse(content, offset, node, match_titles=True)
        finally:
            memo.title_styles, memo.section_level = styles, level

    def _split(self) -> tuple[list[str], Any]:
        """Split the lines into the argument and the content. Options are dropped."""
        name = self.name.lower().rpartition(":")[2]
        lines = self.content
        has_argument = bool(self.block_text.partition("\n")[0].partition("::")[2].strip())
        end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
        options = next((i for i in range(end) if _OPTION.match(lines[i].lstrip())), end)
        if name in ADMONITIONS or (not has_argument and options == end):
            return [], lines[:options] + lines[end:]
        return [line.strip() for line in lines[:options]] if has_argument else [], lines[end:]
