"""Shell patterns, matched against paths as they come instead of listing folders first."""

from __future__ import annotations

import re
from pathlib import PurePath

_MAGIC = re.compile(r"[*?\[]")


def is_pattern(path: str) -> bool:
    """Say whether a path has a wildcard."""
    return _MAGIC.search(path) is not None


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the folder a pattern begins with and the rest, which has the wildcards.

    >>> split_pattern("docs/team/*.md"), split_pattern("*.md")
    (('docs/team', '*.md'), ('', '*.md'))
    """
    parts = PurePath(pattern).parts
    plain = next(i for i, part in enumerate(parts) if is_pattern(part))
    return (str(PurePath(*parts[:plain])) if plain else "", "/".join(parts[plain:]))


def to_regex(pattern: str) -> re.Pattern[str]:
    """Return an expression for whole relative paths: ``**`` spans folders, ``*`` and ``?`` do not.

    >>> bool(to_regex("**/*.md").fullmatch("a/b/c.md")), bool(to_regex("*.md").fullmatch("a/c.md"))
    (True, False)
    """
    pieces = {"**/": r"(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    out = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        if len(token) > 2 and token[0] == "[":
            out.append(f"[{'^' if token[1] == '!' else ''}{re.escape(token.strip('[]!')).replace(chr(92) + '-', '-')}]")
        else:
            out.append(pieces.get(token, re.escape(token)))
    return re.compile("".join(out))
