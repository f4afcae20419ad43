"""Reading a language model's answer: strict about what is taken, tolerant of how it comes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from graphrag_core.model import Extraction, Fact, Mention
from graphrag_core.text import normalise

_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_CLOSER = {"{": "}", "[": "]"}


def parse_answer(answer: str) -> Extraction:
    r"""Return what an answer says, or raise ``ValueError`` saying why nothing can be read.

    The JSON may stand in a fence, between other words, with trailing commas, or cut off in
    the middle; entries that miss a part are passed over.

    >>> parse_answer('Sure! ```json\n{"entities": [{"name": "IBM", "type": "org"}, {"na').mentions
    (Mention(name='IBM', type='org', description='', aliases=(), subject=False),)
    """
    return read_knowledge(_load(answer))


def read_knowledge(data: Mapping[str, Any], weight: float = 5.0) -> Extraction:
    """Return the entities and relations of an answer that is JSON already.

    ``weight`` is that of a relation without ``strength``. Raises ``ValueError`` as
    :func:`parse_answer` does.
    """
    if not {"entities", "relations", "relationships"} & data.keys():
        raise ValueError("neither 'entities' nor 'relations' in the answer")
    entities = data.get("entities", [])
    relations = data.get("relations", data.get("relationships", []))
    if not isinstance(entities, list) or not isinstance(relations, list):
        raise ValueError("'entities' and 'relations' must be lists")  # noqa: TRY004 - one error for every bad answer
    mentions = [mention for entry in entities if (mention := _mention(entry))]
    facts = [fact for entry in relations if (fact := _fact(entry, weight))]
    if (entities or relations) and not mentions and not facts:
        raise ValueError("no entry has the parts asked for")
    return Extraction(tuple(dict.fromkeys(mentions)), tuple(dict.fromkeys(facts)))


def _load(answer: str) -> dict[str, Any]:
    begin = answer.find("{")
    if begin < 0:
        raise ValueError("no JSON object in the answer")
    if answer[:begin].rstrip().endswith("["):  # the entities alone
        answer, begin = f'{{"entities": {answer[answer.rindex("[", 0, begin) :]}', 0
    body = answer[begin:]
    for candidate in (body, _TRAILING_COMMA.sub(r"\1", body), _close(body)):
        try:
            data, _ = json.JSONDecoder().raw_decode(candidate)
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(data, dict):
            return data
    raise ValueError("the JSON is broken beyond its end")


def _close(body: str) -> str:
    """Cut a truncated object after its last whole entry and close what is open there."""
    stack: list[str] = []
    safe, closers = 0, ""
    in_string = escaped = False
    for position, character in enumerate(body):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in _CLOSER:
            stack.append(_CLOSER[character])
        elif character in "}]" and stack:
            stack.pop()
            safe, closers = position + 1, "".join(reversed(stack))
    return _TRAILING_COMMA.sub(r"\1", body[:safe]) + closers


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return " ".join(value.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "").split())


def _mention(entry: Any) -> Mention | None:
    if not isinstance(entry, dict) or not normalise(name := _text(entry.get("name"))):
        return None
    return Mention(name, _text(entry.get("type")).lower(), _text(entry.get("description")))


def _fact(entry: Any, weight: float) -> Fact | None:
    if not isinstance(entry, dict):
        return None
    source, target = _text(entry.get("source")), _text(entry.get("target"))
    relation = _text(entry.get("type", entry.get("relation")))
    if not (normalise(source) and normalise(target) and relation):
        return None
    text = _text(entry.get("description")) or f"{source} {relation.replace('_', ' ')} {target}"
    return Fact((source, target), text, relation=relation, weight=_strength(entry.get("strength"), weight))


def _strength(value: Any, otherwise: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return otherwise
    return min(max(number, 1.0), 10.0) if math.isfinite(number) else otherwise
