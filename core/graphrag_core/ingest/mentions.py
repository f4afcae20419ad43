"""Finding names in text without a model.

A name is a run of capitalised words joined by small connectors, an acronym, a year, a
quoted or backticked name, a code identifier, a version or another identifier; in Chinese
and Japanese text also a bracketed title, a transliterated name, a katakana word, or a
phrase that ends like the name of a place or an organisation.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from graphrag_core.ingest.cjk import find_cjk_names
from graphrag_core.ingest.words import CALENDAR, CONNECTORS, FUNCTION, OPENERS
from graphrag_core.text import has_cjk


class Found(NamedTuple):
    """A name where it stands in the text.

    ``certain`` is false for a single capitalised word at the start of a sentence that
    nothing else in the text shows to be a name: it counts once the name is known.
    """

    name: str
    start: int
    end: int
    certain: bool = True


def _characters(test: str) -> str:
    """Return a character class of all letters outside ASCII that pass ``str.<test>``."""
    codes = [c for c in range(0x80, sys.maxunicode + 1) if getattr(chr(c), test)()]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(chr(a) if a == b else f"{chr(a)}-{chr(b)}" for a, b in ranges)


_UPPER = f"A-Z{_characters('isupper')}"


def _run_pattern(upper: str) -> re.Pattern[str]:
    """Return the pattern of a run, whose first character is a class: the scan stops only at those."""
    rest = r"[^\W_]*(?:['’.\-&/+][^\W_]+)*[+#]*"
    title = r"(?:M(?:rs?|s|t)|Dr|Prof|S[trg]|Sgt|Jr|Ft|Gen|Col|Lt|Capt|Rev|Hon|No|Vol)\."
    initials = rf"(?:[{upper}]\.)+(?=\s[{upper}])"
    number = r"[\d.,]*(?<=\d)(?:st|nd|rd|th)?(?!\w)"
    name = rf"(?:{title}|{initials}|[{upper}]{rest})"
    first = (
        rf"[{upper}0-9](?<![\w@$#/].)"
        rf"(?:(?<=\d){number}"
        rf"|(?<!\d)(?:(?<=[MDPSJFGCLRHNV])(?:rs?|s|t|rof|gt|en|ol|apt|ev|on|o)\.|\.(?:[{upper}]\.)*(?=\s[{upper}])|{rest}))"
    )
    more = rf"[ \t]{{1,2}}(?:{name}|\d{number})|(?<!\d)[ \t]{{1,2}}(?:(?:{CONNECTORS}|&)[ \t]+){{1,2}}{name}"
    return re.compile(rf"{first}(?:{more})*")


_RUN = _run_pattern(_UPPER)
_RUN_ASCII = _run_pattern("A-Z")  # three times as fast, and few passages have other capitals
_OTHER = re.compile(r"[^\x00-\x7f]+")

_QUOTED = re.compile(r"`([^`\n]{2,80})`|“([^”\n]{2,80})”|\"([^\"\n]{2,80})\"")
# Each branch begins with the rarer character: the scan stops only there.
_DOTTED = r"\.(?<=\w.)(?=[A-Za-z_]\w|[0-9]+\.[0-9]|[0-9]{4})"
_NUMBERED = r"-(?<=[a-z].)(?=[a-z0-9]*[0-9])"
_HINT = re.compile(rf"_|[A-Z0-9](?<=[a-z].)|{_DOTTED}|{_NUMBERED}")
_JOINTS = re.compile(_DOTTED), re.compile(_NUMBERED)
_ASCII = [chr(c) if c < 128 else " " for c in range(256)]
_CASES = bytes(ord("a" if c.islower() else "A" if c.isalnum() else " ") for c in _ASCII)
_IDENTIFIER = re.compile(
    r"(?<![\w.])(?:"
    r"[a-zA-Z]\w*(?:_\w+)+"  # snake_case
    r"|[a-z]\w+(?:\.[A-Za-z_]\w+)+"  # dotted.name
    r"|[a-z]+[A-Z]\w*"  # camelCase
    r"|v[0-9]+(?:\.[0-9]+)+(?:[-+]\w+)*|[0-9]+\.[0-9]+\.[0-9]+(?:[-+.]\w+)*"  # versions
    r"|[0-9]{4}\.[0-9]{4,5}(?:v[0-9]+)?"  # arXiv
    r"|[a-z][a-z0-9]*(?:-[a-z0-9]*[0-9][a-z0-9]*)+"  # gpt-4, us-east-1
    r"|[a-z]+[0-9]+[a-z0-9]*"  # s3, oauth2
    r")(?!\w)"
)
_TOKEN_END = re.compile(r"\s|$")
_ACRONYM = re.compile(rf"\s?\(([{_UPPER}][{_UPPER}\d&.\-]{{1,9}})\)")
_EXPANSION = re.compile(r"\s?\(([^()]{4,80})\)")
_SUBJECT_VERB = re.compile(
    r"(?:['’]s|,)?\s+(?:is|was|has|had|does|did|will|can|became|began|won|joined|says?|said|wrote|uses?|provides?"
    r"|supports?|owns?|leads?|runs?|handles?|stores?|sends?|issues?)\b"
)
_LOWER_WORD = re.compile(r"\b[^\W\d_A-Z][^\W_]*")
_YEAR = re.compile(r"[12]\d{3}(?= )")
_DATING = re.compile(r"\b(?:in|since|by|until|from|during|of|after|before)[ \t]+$")
_LONGEST_NAME = 12
_MOST_RUNS = 8_192  # remembered, for names come again


def find_names(text: str, starts: frozenset[int] | set[int]) -> list[Found]:
    """Return the names in a text, in the order in which they begin.

    Parameters
    ----------
    text
        A passage, its hard-wrapped lines joined.
    starts
        Offsets at which sentences begin.

    >>> [found.name for found in find_names("We asked the Bank of England about `kg_store` in 1997.", {0})]
    ['Bank of England', 'kg_store', '1997']
    """
    found, in_order = _runs(text, starts)
    identifiers = list(_identifiers(text))
    quoted = list(_quoted(text))
    if quoted:
        starts_of_quotes = [name.start for name in quoted]

        def outside(name: Found) -> bool:
            before = bisect_right(starts_of_quotes, name.start) - 1
            return before < 0 or name.end > quoted[before].end

        found, identifiers = list(filter(outside, found)), list(filter(outside, identifiers))
    others = [*identifiers, *quoted]
    if has_cjk(text):
        others.extend(Found(name, start, end) for name, start, end in find_cjk_names(text))
    if others or not in_order:
        found = sorted([*found, *others], key=lambda name: (name.start, -name.end))
    return found


def find_aliases(text: str, found: list[Found]) -> list[tuple[str, str]]:
    """Return pairs of a short name and the long name that the text itself says it stands for.

    >>> text = "International Business Machines (IBM) sells mainframes."
    >>> find_aliases(text, find_names(text, {0}))
    [('IBM', 'International Business Machines')]
    """
    if "(" not in text:
        return []
    pairs = []
    for name in found:
        if text.find("(", name.end, name.end + 2) < 0:
            continue
        if (after := _ACRONYM.match(text, name.end)) and _abbreviates(after.group(1), name.name):
            pairs.append((after.group(1), name.name))
        elif (after := _EXPANSION.match(text, name.end)) and _abbreviates(name.name, after.group(1)):
            pairs.append((name.name, after.group(1)))
    return pairs


def _quoted(text: str) -> Iterator[Found]:
    if not ("`" in text or '"' in text or "“" in text):
        return
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 1
        name = match.group(group).strip(" ,.")
        words = name.split()
        is_code = group == 1 and len(words) <= 3
        is_name = len(words) <= 8 and name[:1].isupper() and name[-1:] not in "!?"
        if name and (is_code or is_name) and words[0].casefold() not in OPENERS - {"the", "a", "an"}:
            yield Found(name, match.start(group), match.end(group))


def _identifiers(text: str) -> Iterator[Found]:
    if not _hints_at_identifiers(text):
        return
    done = 0
    for hint in _HINT.finditer(text):
        if hint.start() < done:
            continue
        start = max(text.rfind(space, done, hint.start()) for space in " \n\t") + 1
        end = _TOKEN_END.search(text, hint.end())
        done = end.start() if end else len(text)
        for match in _IDENTIFIER.finditer(text, max(start, 0), done):
            yield Found(match.group(), match.start(), match.end())


def _hints_at_identifiers(text: str) -> bool:
    """Say whether :data:`_HINT` occurs in a text, at a tenth of the cost of looking for it."""
    if "_" in text or b"aA" in text.encode("ascii", "replace").translate(_CASES):
        return True
    return any(joint.search(text) for joint in _JOINTS)


def _runs(text: str, starts: frozenset[int] | set[int]) -> tuple[list[Found], bool]:
    """Return the names in runs of capitalised words, and whether they lie in the order of the text."""
    certain: list[Found] = []
    lonely: list[Found] = []
    new = tuple.__new__  # Found(...), at half the cost
    for match in (_RUN if _has_other_capitals(text) else _RUN_ASCII).finditer(text):
        run, at = match.group(), match.start()
        initial = at in starts or at - 1 in starts
        dated = run[0] in "12" and len(run) > 5 and _DATING.search(text, max(0, at - 9), at) is not None
        for name, start, is_certain in _names_in(run, initial, dated):
            found = new(Found, (name, at + start, at + start + len(name), is_certain))
            (certain if is_certain else lonely).append(found)
    if not lonely:
        return certain, True
    sure = {found.name for found in certain}
    acting = {found for found in lonely if _SUBJECT_VERB.match(text, found.end)}
    lower = set(_LOWER_WORD.findall(text)) if acting else set()
    for found in lonely:
        is_name = found.name in sure or (found in acting and found.name.lower() not in lower)
        certain.append(new(Found, (found.name, found.start, found.end, is_name)))
    return certain, False


def _has_other_capitals(text: str) -> bool:
    return not text.isascii() and any(map(str.isupper, set("".join(_OTHER.findall(text)))))


@lru_cache(maxsize=_MOST_RUNS)
def _names_in(run: str, initial: bool, dated: bool) -> tuple[tuple[str, int, bool], ...]:
    """Return name, offset and certainty of what a run names, at a sentence's start or after "in" or "since"."""
    words = run.split()
    if len(words) == 1:
        return _word(run, initial)
    if not initial and _nothing_to_take(run, words):
        return ((run, 0, True),)
    return tuple(_trim(run, words, initial, dated))


def _word(word: str, initial: bool) -> tuple[tuple[str, int, bool], ...]:
    """Return what :func:`_trim` would of a single word, and sooner: most runs are one."""
    lower = word.lower()
    if lower in FUNCTION or lower.rstrip(".,") in (OPENERS if initial else FUNCTION):
        return ()
    name = _bare(word.rstrip(",."))
    return ((name, 0, not (initial and _plain(name))),) if _stands_alone(name) else ()


def _nothing_to_take(run: str, words: list[str]) -> bool:
    """Tell a run of letters at both ends that is a name as it stands."""
    if not (run[0].isalpha() and run[-1].isalpha() and len(words) <= _LONGEST_NAME):
        return False
    return words[0].lower() not in FUNCTION and words[-1].lower() not in FUNCTION and run[-2] not in "'’"


def _trim(run: str, words: list[str], initial: bool, dated: bool) -> Iterator[tuple[str, int, bool]]:
    """Take from a run the words at its ends that are no part of a name; cut a date's year off."""
    start, end = 0, len(run)
    first, last = _leading(words, OPENERS if initial else FUNCTION), len(words)
    while last > first and words[last - 1].lower() in FUNCTION:
        last -= 1
    if last - first == 2 and words[last - 1].isdigit() and words[first].lower() in CALENDAR:
        first += 1
    if not 1 <= last - first <= _LONGEST_NAME:
        return
    for word in words[:first]:
        start = run.index(word, start) + len(word)
    for word in reversed(words[last:]):
        end = run.rindex(word, start, end)
    name = run[start:end].strip(" \t,.")
    if first:
        start = run.index(name, start)
    name = _bare(name)
    if last - first == 1 and not _stands_alone(name):
        return
    if last - first > 1 and (first or dated) and (year := _YEAR.match(name)):
        yield year.group(), start, True
        start, name = start + 5, name[5:].lstrip()
    yield name, start, not (initial and first == 0 and last == 1 and _plain(name))


def _bare(name: str) -> str:
    return name[:-2] if name.endswith(("'s", "’s")) else name


def _leading(words: list[str], droppable: frozenset[str]) -> int:
    count = 0
    while count < len(words) and words[count].lower().rstrip(".,") in droppable:
        count += 1
    return count


def _stands_alone(word: str) -> bool:
    if word[:1].isdigit():
        return len(word) >= 4 and not word[1:].strip("0123456789")
    return len(word) > 1 and word.casefold() not in CALENDAR


def _plain(word: str) -> bool:
    return word[1:].islower()


def _abbreviates(short: str, long: str) -> bool:
    letters = [c for c in short.casefold() if c.isalnum()]
    words = [w for w in re.split(r"[\s\-]+", long.casefold()) if w]
    if not 2 <= len(letters) <= 10 or len(words) < 2:
        return False
    initials = [w[0] for w in words if w not in FUNCTION]
    return letters in (initials, [w[0] for w in words])
