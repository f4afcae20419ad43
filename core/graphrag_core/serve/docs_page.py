"""The page ``/docs``: the routes of the API as HTML, without scripts and without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
details{border:1px solid #8886;border-radius:8px;margin:.5rem 0;padding:.5rem 1rem}
summary{cursor:pointer;font-family:ui-monospace,monospace;overflow-wrap:anywhere}
summary b{display:inline-block;min-width:4.5rem}
pre{background:#8882;padding:.75rem;border-radius:6px;overflow:auto}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}
"""
_CODE = re.compile(r"(`+)([^`]+)\1")


def docs_page(schema: Mapping[str, Any]) -> str:
    """Return an OpenAPI schema as a page."""
    info = schema["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        _paragraphs(info.get("description", "")),
        '<p>The schema for clients and code generators: <a href="openapi.json">openapi.json</a></p>',
    ]
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts += _route(schema, path, method, route)
    return "".join([*parts, "</body></html>"])


def _route(schema: Mapping[str, Any], path: str, method: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"<details><summary><b>{method.upper()}</b> {escape(path)}</summary>"
    yield _paragraphs(route.get("description", route.get("summary", "")))
    rows = [
        (one["name"], one["schema"], one.get("required", False), one.get("description", ""))
        for one in route.get("parameters", ())
    ]
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        fields = _resolved(schema, body)
        required = fields.get("required", ())
        rows += [
            (name, one, name in required, one.get("description", "")) for name, one in fields["properties"].items()
        ]
    if rows:
        yield "<table><tr><th>name</th><th>type</th><th>meaning</th></tr>"
        for name, kind, needed, meaning in rows:
            star = " (required)" if needed else ""
            yield f"<tr><td><code>{escape(name)}</code>{star}</td><td>{escape(_type(kind))}</td>"
            yield f"<td>{_inline(meaning)}</td></tr>"
        yield "</table>"
    if body is not None:
        yield f"<pre>{escape(json.dumps(_example(schema, body), indent=2, ensure_ascii=False))}</pre>"
    answer = route["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
    if answer is not None:
        names = ", ".join(_resolved(schema, answer).get("properties", {}))
        yield f"<p>Returns: <code>{escape(names)}</code></p>"
    yield "</details>"


def _inline(text: str) -> str:
    """Return a line of Markdown as HTML: text in backticks is code."""
    return _CODE.sub(r"<code>\2</code>", escape(text))


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(one)}</p>" for one in text.split("\n\n"))


def _resolved(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in value:
        value = schema["components"]["schemas"][value["$ref"].rsplit("/", 1)[1]]
    return value


def _type(value: Mapping[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(_type(one) for one in value["anyOf"])
    if "enum" in value:
        return " | ".join(map(str, value["enum"]))
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}))}"
    return str(value.get("type") or value.get("$ref", "value").rsplit("/", 1)[-1])


def _example(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
    """Return an example of a value: what is required, and what has an example."""
    value = _resolved(schema, value)
    if value.get("examples"):
        return value["examples"][0]
    if "properties" in value:
        required = value.get("required", ())
        return {
            name: _example(schema, one)
            for name, one in value["properties"].items()
            if name in required or one.get("examples")
        }
    if value.get("type") == "array":
        return [_example(schema, value["items"])]
    return {"string": "text", "integer": 1, "number": 1.0, "boolean": True}.get(value.get("type", ""))
