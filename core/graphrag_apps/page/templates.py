"""HTML from Jinja2 templates with autoescaping, for pages that load nothing and run nothing but their own files."""

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from graphrag_core.context.escape import for_html

_SHARED = "graphrag_apps.page"  # whose assets all pages may use


def render(package: str, template: str, **values: object) -> str:
    """Render a template in the folder ``assets`` of a package."""
    return _environment(package).get_template(template).render(**values)


def asset(package: str, *names: str) -> Markup:
    """Return files in the folder ``assets`` of a package, or of this one, for a template that does not escape them."""
    folders = [resources.files(name) / "assets" for name in (package, _SHARED)]
    found = (next(folder / name for folder in folders if (folder / name).is_file()) for name in names)
    return Markup("").join(Markup(file.read_text("utf-8")) for file in found)  # noqa: S704 - package data


def _digest(text: str) -> str:
    """Return the hash of a style or a script, as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(style: str, *scripts: str) -> str:
    """Return a Content-Security-Policy that allows a style, scripts, and nothing from other files."""
    allowed = " ".join(map(_digest, scripts)) or "'none'"
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {allowed}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def valid(value: object) -> object:
    """Return a value for a template: numbers with one decimal, texts by :func:`for_html`."""
    if isinstance(value, float):
        return f"{round(value, 1) + 0.0:g}"
    return for_html(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name, "assets") for name in (package, _SHARED)])
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=valid,
        auto_reload=False,
    )  # fmt: skip
