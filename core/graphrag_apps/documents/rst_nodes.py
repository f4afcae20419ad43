"""Parse reStructuredText with docutils: directives and roles of any name become nodes that its HTML writer knows."""

from __future__ import annotations

import re
import textwrap
import threading
from collections import defaultdict
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers import rst
from docutils.parsers.rst import directives, states
from docutils.transforms import references
from docutils.utils import new_document
from docutils.writers import html5_polyglot

from graphrag_core.text.html import html_to_markdown
from graphrag_core.text.names import is_version

# -- directives, by what becomes of them

_SKIPPED = frozenset(
    "toctree contents include literalinclude raw meta index sectnum section-numbering highlight role default-role "
    "image autosummary program tabularcolumns graphviz digraph graph inheritance-diagram plot header footer title "
    "sectionauthor moduleauthor codeauthor changelog_imports footer_topic bibliography todolist autosectionlabel "
    "target-notes restructuredtext-test-directive acks".split()
)
_LABELS = {
    "note": "Note:", "warning": "Warning:", "tip": "Tip:", "hint": "Hint:", "important": "Important:",
    "caution": "Caution:", "danger": "Danger:", "error": "Error:", "attention": "Attention:", "seealso": "See also:",
    "todo": "To do:", "versionadded": "Added in version", "versionchanged": "Changed in version",
    "versionremoved": "Removed in version", "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
}  # fmt: skip
_CODE = frozenset(
    "code code-block sourcecode literal parsed-literal doctest testcode testoutput testsetup testcleanup prompt "
    "ipython ipython3 console productionlist math mermaid uml".split()
)
_WRAPPERS = frozenset(
    "container rst-class class-wrapper compound only ifconfig hlist tab-set tabs grid figure centered glossary".split()
)
_OBJECTS = frozenset(
    "function method attribute class exception data staticmethod classmethod property decorator decoratormethod type "
    "var macro struct union enum enumerator member namespace describe object option cmdoption envvar confval setting "
    "signal event directive role".split()
)
_SHOWN_ALONE = frozenset("function method attribute class data exception".split())
"""Objects whose signature is text even if nothing is said about them."""
_BUILT_IN = frozenset("table csv-table list-table replace unicode date".split())
"""Directives that docutils runs itself."""

# -- roles

_PLAIN_ROLES = re.compile(
    r"emphasis|strong|title(-reference)?|t|sub(script)?|sup(erscript)?|abbr|dfn|guilabel|menuselection|raw|(foot)?cite"
    r"|pr|sha|.*(user|author|contrib|issue|ticket|bug|pull|commit|cve|doi|wiki|pypi).*|(gh|rev).*"
)
_LITERAL_ROLES = frozenset("code literal samp file program kbd makevar mimetype regexp keyword token math".split())
_LABEL_ROLES = frozenset("ref numref term any eq index".split())  # not case-sensitive
_ROLE_TARGET = re.compile(r"(.*?)\s*<([^<>]+)>", re.DOTALL)
_IDENTIFIER = re.compile(r"[^\s`]*[A-Za-z_][^\s`]*")
_PRIVATE_MODULE = re.compile(r"_\w+\.(?=[A-Za-z])")
_OPTION = re.compile(r":[A-Za-z_][\w -]*:(?:\s|$)")
_PARAMETER = re.compile(r"(?:param(?:eter)?|arg(?:ument)?|key(?:word)?|raises|type|[ic]var)\s(?:.*\s)?(\S+)")
_WORD = re.compile(r"\w")
_MOST_SUBSTITUTED = 200_000  # characters of all replacement texts

_TRANSFORMS = [
    references.Substitutions, references.PropagateTargets, references.AnonymousHyperlinks,
    references.IndirectHyperlinks, references.Footnotes, references.ExternalTargets, references.InternalTargets,
]  # fmt: skip
_find_built_in = directives.directive
_lock = threading.Lock()
_defaults = get_default_settings(rst.Parser, html5_polyglot.Writer)  # made once: it is slow
_defaults.is_graphrag_reader = True
_defaults.file_insertion_enabled = _defaults.raw_enabled = _defaults.warning_stream = False
_defaults.embed_stylesheet, _defaults.stylesheet_path, _defaults.math_output = False, "", "LaTeX"
_defaults.report_level, _defaults.halt_level, _defaults.initial_header_level = 5, 6, "1"


def rst_to_markdown(text: str) -> tuple[str, str]:
    """Return a text in reStructuredText as Markdown, and its title."""
    document = new_document("", _defaults.copy())
    document.settings.module = document.settings.title = ""
    inliner = states.Inliner()
    inliner.interpreted = _role
    with _lock:
        # docutils looks directives up in a function of a module; Sphinx replaces it in the same way.
        directives.directive, states.RSTState.nested_sm = _find_directive, _StateMachine
        try:
            rst.Parser(inliner=inliner).parse(text, document)
        finally:
            directives.directive, states.RSTState.nested_sm = _find_built_in, states.NestedStateMachine
    _prepare(document)
    title = _title(document)
    document.transformer.add_transforms(_TRANSFORMS)
    document.transformer.apply_transforms()
    by_kind = _by_kind(document)
    for problem in by_kind[nodes.problematic]:
        _replace(problem, [nodes.Text(problem.astext().strip("|_`*"))])
    for reference in by_kind[nodes.reference]:
        if "refuri" not in reference and "refid" not in reference:
            reference["refuri"] = f"#{nodes.make_id(reference.get('refname', ''))}"
    writer = _HTMLWriter(document)
    document.walkabout(writer)
    return html_to_markdown("".join(writer.body)), title


class _StateMachine(states.NestedStateMachine):  # type: ignore[misc]
    """Makes a state when it is entered. docutils makes all 15 for each list, which is a fifth of its time."""

    def add_states(self, state_classes: Any) -> None:
        """Keep the classes of the states."""
        self.states = _States(self, state_classes)


class _States(dict[str, Any]):
    def __init__(self, machine: Any, classes: Any) -> None:
        self.machine, self.classes = machine, {one.__name__: one for one in classes}

    def __missing__(self, name: str) -> Any:
        state = self[name] = self.classes[name](self.machine)
        if hasattr(self.machine, "memo"):  # it runs
            state.runtime_init()
        return state


class _HTMLWriter(html5_polyglot.HTMLTranslator):  # type: ignore[misc]
    """Writes code with the elements that HTML has for it."""

    def visit_literal(self, node: Any) -> None:
        self.body.append(f"<code>{self.encode(node.astext())}</code>")
        raise nodes.SkipNode

    def visit_literal_block(self, node: Any) -> None:
        self.body.append(f'<pre class="{" ".join(node["classes"])}">{self.encode(node.astext())}</pre>\n')
        raise nodes.SkipNode

    visit_doctest_block = visit_literal_block


def _title(document: Any) -> str:
    """Return the first heading, or the module that a page without one describes."""
    sections = [child for child in document.children if isinstance(child, nodes.section)]
    title = " ".join(sections[0].children[0].astext().split()) if sections else ""
    title = document.settings.title or title or document.settings.module
    return "" if len(sections) > 1 and is_version(title) else str(title)


def _prepare(document: Any) -> None:
    """Change what the HTML writer would show otherwise."""
    by_kind = _by_kind(document)
    for fields in by_kind[nodes.field_list]:
        above = document[: document.index(fields)] if fields.parent is document else []
        is_head = fields.parent is document and not any(isinstance(node, nodes.section) for node in above)
        items = [] if is_head else [_field(*field.children) for field in fields.children]
        _replace(fields, [nodes.bullet_list("", *items)] if items else [])
    for target in by_kind[nodes.target]:
        target["ids"] += [name for name in target["names"] if name not in target["ids"] and "refuri" not in target]
    _limit_substitutions(document, by_kind[nodes.substitution_reference])
    for message in by_kind[nodes.system_message]:
        _replace(message, _lost(message))


def _by_kind(document: Any) -> defaultdict[type, list[Any]]:
    """Return the nodes of a document by their class, in order."""
    by_kind: defaultdict[type, list[Any]] = defaultdict(list)
    pending = [document]
    while pending:
        node = pending.pop()
        by_kind[type(node)].append(node)
        pending += reversed(node.children)
    return by_kind


def _limit_substitutions(document: Any, references: list[Any]) -> None:
    """Replace references to nothing, those inside of replacement texts, which may multiply, and all after many."""
    definitions = document.substitution_defs
    size = 0
    for reference in references:
        definition = definitions.get(reference.get("refname", ""))
        size += len(definition.astext()) if definition is not None else 0
        is_nested = isinstance(reference.parent, nodes.substitution_definition)
        if definition is None or is_nested or size > _MOST_SUBSTITUTED:
            _replace(reference, [nodes.Text(reference.astext())])


def _lost(message: Any) -> list[Any]:
    """Return the source that docutils could not place, such as a heading of a wrong level."""
    sources = [child.astext() for child in message.children if isinstance(child, nodes.literal_block)]
    lines = [line.strip() for source in sources for line in source.split("\n") if _WORD.search(line)]
    is_lost = message.get("level", 0) >= 3 and lines and not lines[0].startswith(".. ")  # after a warning it was used
    return [nodes.paragraph("", " ".join(lines))] if is_lost else []


def _replace(node: Any, others: list[Any]) -> None:
    at = node.parent.index(node)
    node.parent[at : at + 1] = others


def _field(name: Any, body: Any) -> Any:
    """Return a field, such as the parameter of a function, as an item."""
    parameter = _PARAMETER.fullmatch(name.astext())
    label = [nodes.literal("", parameter[1])] if parameter else name.children
    return nodes.list_item("", *_labelled([*label, nodes.Text(": ")], body.children))


def _labelled(label: list[Any], content: list[Any]) -> list[Any]:
    """Return nodes whose first paragraph starts with a label."""
    if content and isinstance(content[0], nodes.paragraph):
        return [nodes.paragraph("", "", *label, *content[0].children), *content[1:]]
    return [nodes.paragraph("", "", *label), *content]


# -- roles


def _role(rawsource: str, text: str, role: str, _: int) -> tuple[list[nodes.Node], list[Any]]:
    """Return what a role becomes: a literal, a link, or plain text."""
    text = rawsource[rawsource.find("`") + 1 : rawsource.rfind("`")] if "`" in rawsource else text
    text = " ".join(text.replace("\\ ", "").replace("\\", "").split())
    role = (role or "").lower().rpartition(":")[2]
    if not role or role in _LITERAL_ROLES:
        return [nodes.literal("", text) if role or _is_identifier(text) else nodes.Text(text)], []
    # "NAME_<CONFIG>" is a name, "title <target>" and :ref:`title<label>` are links.
    titled = _ROLE_TARGET.fullmatch(text) if " <" in text or role in ("doc", *_LABEL_ROLES) else None
    return _role_link(role, *(titled.groups() if titled else ("", text))), []


def _role_link(role: str, title: str, target: str) -> list[nodes.Node]:
    """Return the link, or the plain text, of a role with a target."""
    shown = title or target
    if _PLAIN_ROLES.fullmatch(role):
        return [nodes.Text(shown)]
    if role in ("pep", "rfc"):
        number = target.partition("#")[0]
        pep, rfc = f"https://peps.python.org/pep-{number:0>4}/", f"https://www.rfc-editor.org/rfc/rfc{number}"
        return _link(title or f"{role.upper()} {target}", pep if role == "pep" else rfc)
    if role in ("doc", "download"):
        return _link(shown, target if "/" in target else f"./{target}")
    return _link(shown, target.lower()) if role in _LABEL_ROLES else _object_link(title, target)


def _object_link(title: str, target: str) -> list[nodes.Node]:
    name = _PRIVATE_MODULE.sub("", target.lstrip("~!@."), count=1)
    shown = title or (name.rpartition(".")[2] if target.startswith("~") else name)
    name = name.partition("(")[0].strip()
    if title.startswith("!") or target.startswith("!") or name in ("None", "True", "False", ""):
        return [nodes.literal("", shown.lstrip("!"))]
    return _link(shown, name, is_code=not title and _is_identifier(shown))


def _link(text: str, target: str, *, is_code: bool = False) -> list[nodes.Node]:
    shown = nodes.literal("", text) if is_code else nodes.Text(text)
    return [nodes.reference("", "", shown, refuri=target)]


def _is_identifier(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None


# -- directives


def _find_directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
    is_ours = hasattr(document.settings, "is_graphrag_reader") and name.lower() not in _BUILT_IN
    return (_Directive, []) if is_ours else _find_built_in(name, language, document)


class _Directive(rst.Directive):  # type: ignore[misc]
    """Handles every directive name with any arguments and options, so that unknown directives do not fail."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return what the directive becomes."""
        full, name = self.name.lower(), self.name.lower().rpartition(":")[2]
        if name in _SKIPPED:
            return []
        arguments, content = self._split(name)
        first = " ".join(arguments)
        found: list[nodes.Node]
        if name in _CODE:
            found = [_code(name, first, content)]
        elif name in _LABELS:
            found = self._with_label(name, first, content)
        elif name in ("module", "currentmodule", "automodule"):
            found = self._module(name, first, content)
        elif name == "glossary":
            found = [self._glossary(content)]
        elif name in _WRAPPERS or (name == "class" and not _is_identifier(first)):
            found = self._nested(content)
        elif name in _OBJECTS or name.startswith("auto") or ":" in full or (not content and _is_identifier(first)):
            found = self._object(name, [line.rstrip("\\") for line in arguments], content)
        else:
            found = [*([nodes.paragraph("", "", *self._inline(first))] if first else []), *self._nested(content)]
        return found

    def _with_label(self, name: str, argument: str, content: Any) -> list[Any]:
        """Return a note or the remark on a version behind its label: "Changed in version 2.0: ..."."""
        version, _, text = argument.partition(" ")
        ending = " " if name[-1] == ":" or not version else f" {version}" + (": " if text or content else ".")
        label = nodes.Text(f"{_LABELS[name]}{ending}")
        return _labelled([label, *self._inline(text)], self._nested(content))

    def _split(self, name: str) -> tuple[list[str], Any]:
        """Return the lines of the argument, and those of the content. Options are dropped."""
        lines = self.content
        has_argument = bool(self.block_text.partition("\n")[0].partition("::")[2].strip())
        end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
        options = next((i for i in range(end) if _OPTION.match(lines[i].lstrip())), end)
        is_admonition = _LABELS.get(name, "")[-1:] == ":"
        if is_admonition or (not has_argument and options == end):
            return [], lines[:options] + lines[end:]
        return [line.strip() for line in lines[:options]] if has_argument else [], lines[end:]

    def _nested(self, content: Any) -> list[Any]:
        """Parse nested lines. They may contain headings, as in Sphinx."""
        memo, node = self.state.memo, nodes.Element()
        styles, level = memo.title_styles, memo.section_level
        memo.title_styles, memo.section_level = [], 0
        try:
            self.state.nested_parse(content, self.content_offset, node, match_titles=True)
        finally:
            memo.title_styles, memo.section_level = styles, level
        return list(node.children)

    def _inline(self, text: str) -> list[Any]:
        return list(self.state.inline_text(text, self.lineno)[0]) if text else []

    def _module(self, name: str, module: str, content: Any) -> list[Any]:
        document = self.state.document
        if content and next(document.findall(nodes.section), None) is None:
            document.settings.title = module
        document.settings.module = module
        target = [] if name == "currentmodule" else [nodes.target("", "", ids=[module])]
        return target + self._nested(content)

    def _glossary(self, content: Any) -> Any:
        """Return terms, which may share a definition, and their definitions, which are indented."""
        glossary = nodes.definition_list()
        start = 0
        while start < len(content):
            end = next((i for i in range(start, len(content)) if content[i][:1].isspace()), len(content))
            after = next((i for i in range(end, len(content)) if content[i][:1].strip()), len(content))
            lines = (line.partition(" : ")[0] for line in content[start:end] if line.strip()[:3] not in ("", ".. "))
            terms = [
                nodes.term("", "", *self._inline(line), ids=[line.strip().lower().replace(" ", "-")]) for line in lines
            ]
            block = content[end:after]
            block.trim_left(min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0))
            glossary += nodes.definition_list_item("", *terms, nodes.definition("", *self._nested(block)))
            start = after
        return glossary

    def _object(self, kind: str, signatures: list[str], content: Any) -> list[Any]:
        """Return the definition of an object. Without content it names what the next heading or paragraph is about."""
        named = [(signature, name) for signature in signatures if (name := object_name(signature))]
        module = self.state.document.settings.module
        ids = {
            name: [name, *([f"{module}.{name}"] if module and not name.startswith((module, "-")) else [])]
            for _, name in named
        }
        if not content and not kind.startswith("auto") and kind not in _SHOWN_ALONE:
            return [nodes.target("", "", ids=ids[name]) for _, name in named]
        terms = [nodes.term("", "", nodes.literal("", signature), ids=ids[name]) for signature, name in named]
        item = nodes.definition_list_item("", *terms)
        if content:
            item += nodes.definition("", *self._nested(content))
        return [nodes.definition_list("", item)]


def _code(directive: str, language: str, content: Any) -> Any:
    code = textwrap.dedent("\n".join(content)) or language
    is_named = bool(content and language) and directive != "math"
    return nodes.literal_block(code, code, classes=[f"language-{language}"] if is_named else [])


def object_name(signature: str) -> str:
    """Return the name in a signature.

    >>> object_name("async connect(url, *, timeout=3)"), object_name("--broker URL"), object_name("int run(x)")
    ('connect', '--broker', 'run')
    """
    signature = signature.strip()
    if signature.startswith("-"):
        return re.split(r"[\s=,\[<]", signature, maxsplit=1)[0]
    head = re.split(r"[(\[=]|\s->|:\s", signature, maxsplit=1)[0].strip()
    if "(" in signature and " " in head:
        head = head.rpartition(" ")[2].lstrip("*&")
    return head.partition(" ")[0]
