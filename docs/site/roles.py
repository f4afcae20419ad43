"""A Griffe extension: docstrings become Markdown, and pydantic classes get the signature of their fields."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|ref):`(?:([^`<]+?)\s+<([^`>]+)>|(~?)([^`<>]+))`")
DOCTEST = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.MULTILINE)
SECTION = re.compile(r"^(?:Parameters|Attributes)\n-{3,}\n(?:.+\n?|\n(?!\w+\n-{3,}))*", re.MULTILINE)
TOGETHER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)+)((?: :.*)?\n(?:(?: .*)?(?:\n|\Z))*)", re.MULTILINE)
LITERAL = re.compile(r"^( *)(.*?)::$(?=\n\n\1 +\S)", re.MULTILINE)

MODELS = {"BaseNodePostprocessor", "BaseEvent", "BaseEmbedding"}
"""Base classes in frameworks that are pydantic models."""


class Roles(griffe.Extension):
    """Rewrites each docstring when its object was loaded, and gives pydantic classes an ``__init__``."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value, _scope(obj))

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add the constructor of a pydantic class: one keyword for each annotated field, as pydantic makes it."""
        is_model = "model_config" in cls.members or any(str(base) in MODELS for base in cls.bases)
        if not is_model or "__init__" in cls.members:
            return
        fields = [
            field
            for name, field in cls.attributes.items()
            if field.annotation is not None
            and not name.startswith("_")
            and "property" not in field.labels
            and "ClassVar" not in str(field.annotation)
        ]
        keyword = griffe.ParameterKind.keyword_only
        parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
        parameters += [
            griffe.Parameter(field.name, annotation=field.annotation, kind=keyword, default=field.value)
            for field in fields
        ]
        cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))


def to_markdown(text: str, scope: str) -> str:
    """Return a docstring in Markdown; names without a dot are looked up in ``scope``."""

    def role(match: re.Match[str]) -> str:
        shown, target = (match[1], match[2]) if match[1] else (match[4], match[4])
        if match[3]:
            shown = shown.rpartition(".")[2]
        if "." not in target:
            target = f"{scope}.{target}"
        return f'<autoref optional identifier="{target}"><code>{shown}</code></autoref>'

    def doctest(match: re.Match[str]) -> str:
        return f"{match[1]}```pycon\n{match[0]}\n{match[1]}```"

    def literal(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}:" if match[2] else ""

    def section(match: re.Match[str]) -> str:  # Griffe gives names that share a description the type of the first
        return TOGETHER.sub(lambda names: "".join(f"{name}{names[2]}" for name in names[1].split(", ")), match[0])

    text = SECTION.sub(section, text)
    return DOCTEST.sub(doctest, LITERAL.sub(literal, ROLE.sub(role, text)))


def _scope(obj: griffe.Object) -> str:
    while not (obj.is_class or obj.is_module) and obj.parent is not None:
        obj = obj.parent
    return obj.path
