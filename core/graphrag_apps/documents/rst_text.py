"""Parse reStructuredText with docutils, including what Sphinx adds, and write it as light Markdown and marks.

Every directive and role becomes a node, so that none is unknown. No file is opened and no raw HTML is read.
"""

from __future__ import annotations

import re
import textwrap
import threading
from contextlib import nullcontext
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers import rst
from docutils.parsers.rst import directives, states
from docutils.utils import new_document

from graphrag_core.text.numbering import is_version
from graphrag_core.text.writer import Writer, defined_name

_ROLE_TARGET = re.compile(r"(.*?)\s*<([^<>]+)>", re.DOTALL)
_IDENTIFIER = re.compile(r"[^\s`]*[A-Za-z_][^\s`]*")
_PRIVATE_MODULE = re.compile(r"_\w+\.(?=[A-Za-z])")
_MODULE = re.compile(r"^(?:[a-z_][a-z0-9_]*\.)+(?=\w)")
_OBJECT_KEYWORD = re.compile(
    r"^(?:(?:async|abstract|static|final|class|classmethod|staticmethod|property|exception|const|virtual|public)\s+)+"
)

# -- directives, by what becomes of them

_SKIPPED = set(
    "toctree contents include literalinclude raw meta index sectnum section-numbering highlight role default-role "
    "image autosummary program tabularcolumns graphviz digraph graph inheritance-diagram plot header footer title "
    "sectionauthor moduleauthor codeauthor changelog_imports footer_topic bibliography todolist autosectionlabel "
    "target-notes restructuredtext-test-directive acks".split()
)
_ADMONITIONS = {
    "note": "Note", "warning": "Warning", "tip": "Tip", "hint": "Hint", "important": "Important", "caution": "Caution",
    "danger": "Danger", "error": "Error", "attention": "Attention", "seealso": "See also", "todo": "To do",
}  # fmt: skip
_VERSIONS = {
    "versionadded": "Added in version", "versionchanged": "Changed in version", "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version", "deprecated-removed": "Deprecated since version",
}  # fmt: skip
_CODE = set(
    "code code-block sourcecode literal parsed-literal doctest testcode testoutput testsetup testcleanup prompt "
    "ipython ipython3 console productionlist math mermaid uml".split()
)
_WRAPPERS = set(
    "container rst-class class-wrapper compound only ifconfig hlist tab-set tabs grid figure centered glossary".split()
)
_OBJECTS = set(
    "function method attribute class exception data module currentmodule staticmethod classmethod property decorator "
    "decoratormethod type var macro struct union enum enumerator member namespace describe object option cmdoption "
    "envvar confval setting signal event directive role rst:directive js:function".split()
)
_CODE_OBJECTS = {"function", "method", "attribute", "class", "data", "exception"}
"""Objects whose signature is text even if nothing is said about them."""

_PARAMETER_FIELDS = set("param parameter arg argument key keyword raises type ivar cvar".split())

# -- roles, by what becomes of them

_PLAIN_ROLES = set(
    "emphasis strong title-reference title t sub sup subscript superscript abbr dfn guilabel menuselection "
    "raw cite footcite".split()
)
_LITERAL_ROLES = set("code literal samp file program kbd makevar mimetype regexp keyword token math".split())
_SITE_ROLES = re.compile(r"user|author|contrib|issue|ticket|bug|^pr$|pull|^gh|commit|^sha$|^rev|cve|doi|wiki|pypi")
_LABEL_ROLES = {"ref", "numref", "term", "any", "eq", "index"}


_OPTION = re.compile(r":[A-Za-z_][\w -]*:(?:\s|$)")
_BUILT_IN = set("table csv-table list-table replace unicode date".split())
"""Directives that docutils runs itself."""

_MAX_SUBSTITUTED = 200_000  # characters of all replacement texts; these may contain others, many times

_find_built_in = directives.directive
_lock = threading.Lock()
_defaults = get_default_settings(rst.Parser)  # made once: it is slow
_defaults.is_graphrag_reader = True
_defaults.file_insertion_enabled = _defaults.raw_enabled = _defaults.warning_stream = False
_defaults.report_level, _defaults.halt_level = 5, 6


def write_rst(text: str, writer: Writer) -> str:
    """Write a text in reStructuredText and return its title."""
    document = _parse(text)
    tree = _Tree(document, writer)
    for child in document.children:
        # ":orphan:" and other fields above the title are for the tool that builds the pages.
        if tree.title or not isinstance(child, nodes.field_list):
            tree.visit(child)
    sections = sum(isinstance(child, nodes.section) for child in document.children)
    return "" if sections > 1 and is_version(tree.title) else tree.title or tree.module


class _Tree:
    """A docutils tree, and what was written of it. A method ``visit_...`` writes a node of that kind."""

    def __init__(self, document: Any, writer: Writer) -> None:
        self.document = document
        self.writer = writer
        self.level = 0
        self.title = ""
        self.module = ""
        self.scope: list[str] = []
        targets = list(document.findall(nodes.target))
        self.labels = {name for target in targets for name in target["names"]}
        self.targets = {name: target["refuri"] for target in targets if "refuri" in target for name in target["names"]}
        self.anonymous = [target.get("refuri", "") for target in targets if target.get("anonymous")]
        self.referenced = {reference.get("refname") for reference in document.findall(nodes.reference)}
        self.has_sections = next(document.findall(nodes.section), None) is not None
        self.substituting = self.substituted = 0

    def visit(self, node: Any) -> None:
        if isinstance(node, nodes.Text):
            self.writer.write(node.astext())
        else:
            getattr(self, f"visit_{node.tagname}", self.children)(node)

    def children(self, node: Any) -> None:
        for child in node.children:
            self.visit(child)

    def _plain(self, node: Any) -> str:
        """Return the words of a node, without markup."""
        outer, self.writer = self.writer, Writer()
        self.children(node)
        text = self.writer.finish().text
        self.writer = outer
        return text.replace("`", "")

    # -- blocks

    def visit_section(self, node: Any) -> None:
        """Write a section. Its title is an anchor if the document links to it by title."""
        self.level += 1
        for name in node["names"]:
            if name in self.referenced and name not in self.labels:
                self.writer.anchor(nodes.make_id(name))
        self.children(node)
        self.level -= 1

    def visit_title(self, node: Any) -> None:
        """Write a heading, and take the first as the title."""
        if not isinstance(node.parent, nodes.section):
            self.visit_paragraph(node)
            return
        if not self.title:
            self.title = self._plain(node)
        with self.writer.heading(self.level):
            self.children(node)

    def visit_paragraph(self, node: Any) -> None:
        """Write a paragraph. In a document without headings, a bold line is one."""
        if not self.has_sections and _is_bold_line(node):
            self.title = self.title or self._plain(node)
            with self.writer.heading(2):
                self.children(node)
            return
        with self.writer.paragraph():
            self.children(node)

    visit_term = visit_attribution = visit_caption = visit_paragraph

    def visit_line(self, node: Any) -> None:
        self.children(node)
        self.writer.line()

    def visit_bullet_list(self, node: Any) -> None:
        first = int(node.get("start", 1)) if isinstance(node, nodes.enumerated_list) else None
        with self.writer.items():
            for number, item in enumerate(node.children):
                with self.writer.item("- " if first is None else f"{first + number}. "):
                    self.children(item)

    visit_enumerated_list = visit_bullet_list

    def visit_definition_list(self, node: Any) -> None:
        """Write terms, each with its definition."""
        in_glossary = isinstance(node.parent, nodes.container) and node.parent["directive"] == "glossary"
        for item in node.children:
            self.writer.block()
            for child in item.children:
                if isinstance(child, nodes.term):
                    self.writer.line()
                    name = " ".join(child.astext().split())
                    if in_glossary:
                        self.writer.anchor(name.lower())
                    with self.writer.span("term", defined_name(name)):
                        self.children(child)
                elif isinstance(child, nodes.definition):
                    with self.writer.item(": "):
                        self.children(child)
                else:
                    self.writer.write(" : ")
                    self.children(child)
        self.writer.block()

    def visit_option_list(self, node: Any) -> None:
        """Write the options of a command, each with its description."""
        for item in node.children:
            group, description = item.children
            names = ", ".join(option.astext() for option in group.children)
            self.writer.block()
            with self.writer.span("term", defined_name(names)):
                self.writer.literal(names)
            with self.writer.item(": "):
                self.children(description)
        self.writer.block()

    def visit_field_list(self, node: Any) -> None:
        """Write fields, such as the parameters of a function."""
        with self.writer.items():
            for field in node.children:
                name, body = field.children
                kind, _, argument = name.astext().partition(" ")
                with self.writer.item("- "):
                    if argument and kind in _PARAMETER_FIELDS:
                        self.writer.literal(argument.rpartition(" ")[2])
                    else:
                        self.children(name)
                    self.writer.write(": ")
                    self._children_on_this_line(body)

    def visit_literal_block(self, node: Any) -> None:
        self.writer.code(node.astext())

    def visit_doctest_block(self, node: Any) -> None:
        self.writer.code(node.astext(), "pycon")

    def visit_table(self, node: Any) -> None:
        with self.writer.paragraph():
            for title in node.findall(nodes.title):
                self.visit_paragraph(title)
            for part in (part for group in node.findall(nodes.tgroup) for part in group.children):
                if isinstance(part, (nodes.thead, nodes.tbody)):
                    for row in part.children:
                        self.writer.row(row.children, self.children)
                if isinstance(part, nodes.thead):
                    self.writer.rule(max(len(row.children) for row in part.children))

    def visit_footnote(self, node: Any) -> None:
        with self.writer.paragraph():
            for number, child in enumerate(node.children):
                if isinstance(child, nodes.label):
                    self.writer.write(f"[{child.astext()}] " if number == 0 and child.astext() else "")
                else:
                    self.children(child) if isinstance(child, nodes.paragraph) else self.visit(child)

    visit_citation = visit_footnote

    def visit_system_message(self, node: Any) -> None:
        """Write the source that docutils could not place, such as a heading of a wrong level."""
        for child in node.children if node.get("level", 0) >= 3 else ():  # after a warning, the source was used
            if isinstance(child, nodes.literal_block):
                lines = [line.strip() for line in child.astext().split("\n") if re.search(r"\w", line)]
                if lines and node.children[0].astext().startswith("Malformed table"):
                    with self.writer.paragraph():
                        for line in lines:
                            gap, row = (r"\s*\|\s*", line.strip("| ")) if line[0] == "|" else (r"\s{2,}", line)
                            self.writer.row(re.split(gap, row), self._inline_markup)
                elif lines and not lines[0].startswith(".. "):
                    self._argument(" ".join(lines))

    def visit_container(self, node: Any) -> None:
        """Write a directive."""
        argument = node["argument"]
        name = node["directive"].rpartition(":")[2]
        first_line = " ".join(argument)
        if name in ("module", "currentmodule", "automodule"):
            self._write_module(node, name, first_line)
        elif name in _CODE:
            language = "" if name == "math" or not node["code"] else first_line
            self.writer.code(textwrap.dedent(node["code"]) or first_line, language)
        elif name in _ADMONITIONS:
            self._labelled(f"{_ADMONITIONS[name]}: ", node)
        elif name in _VERSIONS:
            version, _, text = first_line.partition(" ")
            self._labelled(f"{_VERSIONS[name]} {version}{': ' if text or node.children else '.'}", node, text)
        elif name in _WRAPPERS or (name == "class" and not _is_object(first_line)):
            self.children(node)
        elif _describes_object(node, name, first_line):
            self._describe(node, name, [line.rstrip("\\") for line in argument])
        else:
            self._argument(first_line)
            self.children(node)

    def _write_module(self, node: Any, directive: str, name: str) -> None:
        self.module = name
        if directive != "currentmodule":
            self.writer.anchor(name)
        self.title = self.title or (name if node.children else "")
        self.level += not self.level  # its headings are below the module's name
        self.children(node)

    def _labelled(self, label: str, node: Any, text: str = "") -> None:
        self.writer.block()
        self.writer.write(label)
        self._inline_markup(text)
        self._children_on_this_line(node)

    def _children_on_this_line(self, node: Any) -> None:
        """Write children; the first paragraph continues the line."""
        rest = list(node.children)
        if rest and isinstance(rest[0], nodes.paragraph):
            self.children(rest.pop(0))
        if rest:
            self.writer.block()
        for child in rest:
            self.visit(child)

    def _argument(self, text: str) -> None:
        if text:
            with self.writer.paragraph():
                self._inline_markup(text)

    def _inline_markup(self, text: str) -> None:
        """Write the argument of a directive, which may hold inline markup."""
        if "`" in text or "_" in text or "*" in text:
            for child in _parse(text).children:
                self.children(child)
        else:
            self.writer.write(text)

    def _describe(self, node: Any, directive: str, signatures: list[str]) -> None:
        """Write the definition of an object: its signatures and what is said about it.

        Without content it names what the next heading or paragraph is about.
        """
        named = [(signature, name) for signature in signatures if (name := _object_name(signature))]
        for _, name in named:
            for anchor in self._qualified(name):
                self.writer.anchor(anchor)
        if not node.children and not directive.startswith("auto") and directive not in _CODE_OBJECTS:
            for _, name in named:
                self.writer.define(name)
            return
        self.writer.block()
        for signature, name in named:
            with self.writer.span("term", name):
                self.writer.literal(signature)
            self.writer.line()
        if node.children:
            self.scope.append(named[0][1] if named else "")
            with self.writer.item(": "):
                self.children(node)
            self.scope.pop()
        self.writer.block()

    def _qualified(self, name: str) -> list[str]:
        """Return the names under which roles refer to an object: as written, with its module, without it."""
        scope = self.scope[-1] if self.scope else ""
        inner = f"{scope}.{name}" if scope not in ("", name.partition(".")[0]) else name
        full = f"{self.module}.{inner}" if self.module and not inner.startswith(self.module) else inner
        return list(dict.fromkeys((name, inner, full, _MODULE.sub("", full))))

    # -- inline

    def visit_literal(self, node: Any) -> None:
        self.writer.literal(node.astext())

    def visit_reference(self, node: Any) -> None:
        target = node.get("refuri", "")
        if not target and node.get("anonymous"):
            target = self.anonymous.pop(0) if self.anonymous else ""
        elif not target:
            name = node.get("refname", "")
            target = self.targets.get(name, "")
            if not target and name:
                target = f"#{name}" if name in self.labels else f"#{nodes.make_id(name)}"
        is_link = target and not target.startswith("mailto:")
        with self.writer.span("link", target) if is_link else nullcontext():
            self.children(node)

    def visit_target(self, node: Any) -> None:
        """Remember an anchor for what follows."""
        if "refuri" not in node and "refname" not in node and not node.get("anonymous"):
            for name in node["names"]:
                self.writer.anchor(name)
        self.children(node)

    def visit_substitution_reference(self, node: Any) -> None:
        """Write the replacement text of a substitution, or its name if it is undefined."""
        definition = self.document.substitution_defs.get(node.get("refname", ""))
        self.substituting += 1
        is_defined = definition is not None and self.substituting <= 6 and self.substituted < _MAX_SUBSTITUTED
        self.substituted += 1 + len(definition.astext()) if is_defined else 0
        self.children(definition if is_defined else node)
        self.substituting -= 1

    def visit_footnote_reference(self, node: Any) -> None:
        self.writer.write(f"[{node.astext()}]" if node.astext() else "")

    visit_citation_reference = visit_footnote_reference

    def visit_inline(self, node: Any) -> None:
        """Write a role: a literal, a link, or plain text."""
        if "role" not in node:
            self.children(node)
            return
        role, text = node["role"].lower().rpartition(":")[2], " ".join(node.astext().split())
        if not role:
            self.writer.literal(text) if _is_object(text) else self.writer.write(text)
            return
        # "NAME_<CONFIG>" is a name, "title <target>" and :ref:`title<label>` are links.
        titled = _ROLE_TARGET.fullmatch(text) if " <" in text or role in ("doc", *_LABEL_ROLES) else None
        title, target = titled.groups() if titled else ("", text)
        shown = title or text
        if role in _PLAIN_ROLES or _SITE_ROLES.search(role):
            self.writer.write(shown)
        elif role in _LITERAL_ROLES:
            self.writer.literal(shown)
        elif link := _role_link(role, target):
            with self.writer.span("link", link):
                self.writer.write(f"{role.upper()} {shown}" if role in ("pep", "rfc") and not title else shown)
        else:
            self._object_role(shown, target, is_titled=bool(title))

    def _object_role(self, shown: str, target: str, *, is_titled: bool) -> None:
        if shown.startswith("!"):
            self.writer.literal(shown[1:])
            return
        short = target.startswith("~")
        target = _PRIVATE_MODULE.sub("", target.lstrip("~!@."), count=1)
        if not is_titled:
            shown = target.rpartition(".")[2] if short else target
        name = target.partition("(")[0].strip()
        if name in ("None", "True", "False"):
            self.writer.literal(shown)
            return
        with self.writer.span("link", name):
            self.writer.write(shown) if is_titled or not _is_object(shown) else self.writer.literal(shown)

    def skip(self, node: Any) -> None:
        pass

    visit_comment = visit_substitution_definition = visit_image = visit_raw = visit_label = visit_pending = skip


def _is_bold_line(node: Any) -> bool:
    is_bold = len(node.children) == 1 and node.children[0].tagname == "strong" and node.parent.tagname == "document"
    return is_bold and len(node.astext()) <= 120 and not node.astext().endswith((":", ","))


def _is_object(argument: str) -> bool:
    return _IDENTIFIER.fullmatch(argument) is not None


def _describes_object(node: Any, name: str, first_line: str) -> bool:
    """Whether a directive documents an object, such as a function or an option."""
    if name in _OBJECTS or name.startswith("auto") or ":" in node["directive"]:
        return True
    return not node.children and _is_object(first_line)


def _role_link(role: str, target: str) -> str:
    """Return the link target of a role for standards, documents or labels; empty for other roles."""
    if role in ("pep", "rfc"):
        number = target.partition("#")[0]
        pep, rfc = f"peps.python.org/pep-{number:0>4}/", f"www.rfc-editor.org/rfc/rfc{number}"
        return f"https://{pep if role == 'pep' else rfc}"
    if role in ("doc", "download"):
        return target if "/" in target else f"./{target}"
    return target.lower() if role in _LABEL_ROLES else ""  # labels and terms are not case-sensitive


def _object_name(signature: str) -> str:
    """Return the name in a signature.

    >>> _object_name("async connect(url, *, timeout=3)"), _object_name("--broker URL"), _object_name("int run(x)")
    ('connect', '--broker', 'run')
    """
    signature = _OBJECT_KEYWORD.sub("", signature.strip())
    if signature.startswith("-"):
        return re.split(r"[\s=,\[<]", signature, maxsplit=1)[0]
    head = re.split(r"[(\[=]|\s->|:\s", signature, maxsplit=1)[0].strip()
    if "(" in signature and " " in head:
        head = head.rpartition(" ")[2].lstrip("*&")
    return head if " " not in head else head.partition(" ")[0]


# -- parsing


def _parse(text: str) -> Any:
    """Parse a text into a docutils tree."""
    document = new_document("", _defaults.copy())
    inliner = states.Inliner()
    inliner.interpreted = _read_role
    with _lock:
        # docutils looks directives up in a function of a module; Sphinx replaces it in the same way.
        directives.directive, states.RSTState.nested_sm = _find_directive, _StateMachine
        try:
            rst.Parser(inliner=inliner).parse(text, document)
        finally:
            directives.directive, states.RSTState.nested_sm = _find_built_in, states.NestedStateMachine
    return document


class _StateMachine(states.NestedStateMachine):  # type: ignore[misc]
    """Parses a nested block. It creates its states when they are needed: most blocks need two of seventeen."""

    def add_states(self, state_classes: list[Any]) -> None:
        self.states = _States(self, {state.__name__: state for state in state_classes})


class _States(dict[str, Any]):
    def __init__(self, machine: _StateMachine, classes: dict[str, Any]) -> None:
        self._machine, self._classes = machine, classes

    def __missing__(self, name: str) -> Any:
        state = self[name] = self._classes[name](self._machine, self._machine.debug)
        if hasattr(self._machine, "memo"):  # it runs already
            state.runtime_init()
        return state


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
        if name in _SKIPPED:
            return []
        if name in _CODE:
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
        if name in _ADMONITIONS or (not has_argument and options == end):
            return [], lines[:options] + lines[end:]
        return [line.strip() for line in lines[:options]] if has_argument else [], lines[end:]
