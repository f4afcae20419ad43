"""The name finder: names in text, found by rules, without a model.

A name is a run of capitalised words joined by small connectors, an acronym, a year, a
quoted or backticked name, a code identifier, a version number or another identifier. In Chinese
and Japanese text :mod:`graphrag_core.text.cjk` finds the names.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from graphrag_core.text.cjk import find_cjk_names, has_cjk
from graphrag_core.text.words import CALENDAR, CONNECTORS, FUNCTION, OPENERS


class NameMatch(NamedTuple):
    """A name and its position. A word that only the start of a sentence capitalises is not ``certain``."""

    name: str
    start: int
    end: int
    certain: bool = True


def _other_capitals() -> str:
    """Return all upper-case letters outside ASCII, as the inside of a character class."""
    ranges: list[list[int]] = []
    for code in range(0x80, 0x20000):  # no script has letter case beyond plane 1
        if not chr(code).isupper():
            continue
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(chr(a) if a == b else f"{chr(a)}-{chr(b)}" for a, b in ranges)


_UPPER = f"A-Z{_other_capitals()}"


def _run_pattern(upper: str) -> re.Pattern[str]:
    """Return the pattern of a run of capitalised words.

    It starts with a character class, not with an alternation: the regex engine can skip ahead to it.
    """
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
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")

_QUOTED = re.compile(r"`([^`\n]{2,80})`|“([^”\n]{2,80})”|\"([^\"\n]{2,80})\"")
_QUOTE_OPENERS = OPENERS - {"the", "a", "an"}
# What every identifier has and ordinary words lack. Searching for this first is eight times as fast as _IDENTIFIER.
_DOTTED = r"\.(?<=\w.)(?=[A-Za-z_]\w|[0-9]+\.[0-9]|[0-9]{4})"
_NUMBERED = r"-(?<=[a-z].)(?=[a-z0-9]*[0-9])"
_HINT = re.compile(rf"_|[A-Z0-9](?<=[a-z].)|{_DOTTED}|{_NUMBERED}")
_DOTTED_WORD, _NUMBERED_WORD = re.compile(_DOTTED), re.compile(_NUMBERED)
_CASES = bytes(
    ord("a" if chr(c).islower() else "A" if chr(c).isalnum() else " ") if c < 128 else 32 for c in range(256)
)
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
_WORD = re.compile(r"\S+")
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


def find_names(text: str, starts: frozenset[int] | set[int]) -> list[NameMatch]:
    """Return the names in a text without hard-wrapped lines, in order; ``starts`` are the offsets of its sentences.

    >>> [match.name for match in find_names("We asked the Bank of England about `kg_store` in 1997.", {0})]
    ['Bank of England', 'kg_store', '1997']
    """
    names = _capitalised(text, starts)
    count = len(names)
    names += _identifiers(text)
    quoted = []
    for match in _QUOTED.finditer(text) if any(mark in text for mark in '`"“') else ():
        group = match.lastindex or 1
        name = match[group].strip(" ,.")
        words = name.split()
        is_code = group == 1 and len(words) <= 3
        is_title = len(words) <= 8 and name[:1].isupper() and name[-1:] not in "!?"
        if words and (is_code or is_title) and words[0].casefold() not in _QUOTE_OPENERS:
            quoted.append(NameMatch(name, match.start(group), match.end(group)))
    if quoted:
        begins, ends = [quote.start for quote in quoted], [-1, *(quote.end for quote in quoted)]
        names = [name for name in names if name.end > ends[bisect_right(begins, name.start)]]  # not inside a quote
        names += quoted
    if not text.isascii() and has_cjk(text):
        names += [NameMatch(*match) for match in find_cjk_names(text)]
    if quoted or len(names) > count:
        names.sort(key=attrgetter("end"), reverse=True)
        names.sort(key=attrgetter("start"))
    return names


def find_aliases(text: str, names: list[NameMatch]) -> list[tuple[str, str]]:
    """Return pairs of a short name and the long name that the text itself gives for it.

    >>> text = "International Business Machines (IBM) sells mainframes."
    >>> find_aliases(text, find_names(text, {0}))
    [('IBM', 'International Business Machines')]
    """
    if "(" not in text:
        return []
    pairs = []
    for name in names:
        if text.find("(", name.end, name.end + 2) < 0:
            continue
        if (after := _ACRONYM.match(text, name.end)) and _abbreviates(after.group(1), name.name):
            pairs.append((after.group(1), name.name))
        elif (after := _EXPANSION.match(text, name.end)) and _abbreviates(name.name, after.group(1)):
            pairs.append((name.name, after.group(1)))
    return pairs


def _capitalised(text: str, starts: frozenset[int] | set[int]) -> list[NameMatch]:
    """Return the names in runs of capitalised words, in order of position."""
    names: list[NameMatch] = []
    other = "" if text.isascii() else "".join(_NON_ASCII.findall(text))
    pattern = _RUN if any(map(str.isupper, other)) else _RUN_ASCII
    new = tuple.__new__  # NameMatch(...) in a third of the time
    for match in pattern.finditer(text):
        run, at = match.group(), match.start()
        initial = at in starts or at - 1 in starts
        dated = run[0] in "12" and len(run) > 5 and _DATING.search(text, max(0, at - 9), at) is not None
        for part, offset, certain in _names_in(run, initial, dated):
            names.append(new(NameMatch, (part, at + offset, at + offset + len(part), certain)))
    uncertain = [name for name in names if not name.certain]
    if not uncertain:
        return names
    # A word at the start of a sentence is a name if it also occurs inside a sentence, or if a verb follows and
    # the text does not use the word in lower case.
    known = {name.name for name in names if name.certain}
    subjects = {name for name in uncertain if _SUBJECT_VERB.match(text, name.end)}
    lower = set(_LOWER_WORD.findall(text)) if subjects else set()
    for i, name in enumerate(names):
        if not name.certain and (name.name in known or (name in subjects and name.name.lower() not in lower)):
            names[i] = NameMatch(name.name, name.start, name.end)
    return names


@lru_cache(maxsize=8_192)  # the same names occur again and again
def _names_in(run: str, initial: bool, dated: bool) -> tuple[tuple[str, int, bool], ...]:
    """Return the names in a run of capitalised words: name, offset in the run, and whether it is certain.

    Words at both ends that are not part of a name are stripped, and the year of a date is split off.
    ``initial``: the run starts a sentence. ``dated``: a word such as "in" or "since" precedes it.
    """
    words = run.split()
    first, last = 0, len(words)
    is_name = 1 < last <= _LONGEST_NAME and not initial and run[0].isalpha() and run[-1].isalpha()
    if is_name and run[-2] not in "'’" and FUNCTION.isdisjoint((words[0].lower(), words[-1].lower())):
        return ((run, 0, True),)
    droppable = OPENERS if initial else FUNCTION
    while first < last and words[first].lower().rstrip(".,") in droppable:
        first += 1
    while last > first and words[last - 1].lower() in FUNCTION:
        last -= 1
    if last - first == 2 and words[last - 1].isdigit() and words[first].lower() in CALENDAR:
        first += 1  # the year alone of "October 2005"
    if not 1 <= last - first <= _LONGEST_NAME:
        return ()
    start, end = 0, len(run)
    if last - first < len(words):
        spans = [match.span() for match in _WORD.finditer(run)]
        start, end = spans[first][0], spans[last - 1][1]
    name = run[start:end].rstrip(",.")
    name = name[:-2] if name.endswith(("'s", "’s")) else name
    if last - first == 1:
        if name[:1].isdigit():
            is_name = len(name) >= 4 and not name[1:].strip("0123456789")  # a year, not "35" or "1,200"
        else:
            is_name = len(name) > 1 and name.casefold() not in CALENDAR
        certain = not (initial and first == 0 and name[1:].islower())
        return ((name, start, certain),) if is_name else ()
    if (first or dated) and (year := _YEAR.match(name)):
        rest = name[5:].lstrip()
        return (year.group(), start, True), (rest, start + 5, True)
    return ((name, start, True),)


def _identifiers(text: str) -> Iterator[NameMatch]:
    # Most texts have none. These tests take a third of the time of a search for the pattern.
    mixed_case = b"aA" in text.encode("ascii", "replace").translate(_CASES)
    if not (mixed_case or "_" in text or _DOTTED_WORD.search(text) or _NUMBERED_WORD.search(text)):
        return
    done = 0
    for hint in _HINT.finditer(text):
        if hint.start() < done:
            continue
        start = max(done, *(text.rfind(space, done, hint.start()) + 1 for space in " \n\t"))
        end = _TOKEN_END.search(text, hint.end())
        done = end.start() if end else len(text)
        for match in _IDENTIFIER.finditer(text, start, done):
            yield NameMatch(match.group(), match.start(), match.end())


def _abbreviates(short: str, long: str) -> bool:
    letters = [c for c in short.casefold() if c.isalnum()]
    words = [w for w in re.split(r"[\s\-]+", long.casefold()) if w]
    if not 2 <= len(letters) <= 10 or len(words) < 2:
        return False
    initials = [w[0] for w in words if w not in FUNCTION]
    return letters in (initials, [w[0] for w in words])
