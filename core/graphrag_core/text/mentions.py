"""The name finder: names in text, found by rules, without a model.

A name is a run of capitalised words joined by small connectors, an acronym, a year, a quoted name, a name in code
markup or an identifier. Dates, amounts, version numbers, file names and references such as "Section 3.8" are not names.
In Chinese and Japanese text :mod:`graphrag_core.text.cjk` finds the names.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from graphrag_core.text.cjk import find_cjk_names, has_cjk
from graphrag_core.text.numbering import is_adverb, starts_name, without_numbering
from graphrag_core.text.words import (
    CALENDAR,
    CALENDAR_SHORT,
    CONNECTORS,
    FUNCTION,
    LANGUAGE_OPENERS,
    NEVER_ALONE,
    OPENERS,
    PLACEHOLDERS,
    REFERENCES,
    VERBS,
)

Names = tuple[tuple[str, int, bool], ...]
"""The names in a run of words: name, offset in the run, and whether it is certain."""


class NameMatch(NamedTuple):
    """A name and its position. A word that only the start of a sentence capitalises is not ``certain``."""

    name: str
    start: int
    end: int
    certain: bool = True


@cache  # few texts have other capitals, and computing them takes 30 ms
def _upper() -> str:
    """Return all upper-case letters, as the inside of a character class."""
    ranges: list[list[int]] = []
    for code in range(0x80, 0x20000):  # no script has letter case beyond plane 1
        if not chr(code).isupper():
            continue
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "A-Z" + "".join(chr(a) if a == b else f"{chr(a)}-{chr(b)}" for a, b in ranges)


@cache
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


@cache
def _acronym_pattern() -> re.Pattern[str]:
    return re.compile(rf"\s?\(([{_upper()}][{_upper()}\d&.\-]{{1,9}})\)")


_RUN_ASCII = _run_pattern("A-Z")  # three times as fast as the pattern of all capitals, which few passages need
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")

_QUOTED = re.compile(r"“([^”\n]{2,80})”|``([^`\n]{2,80}?)''|\"([^\"\n]{2,80})\"")
_MARKED_HINT = re.compile('["“`]')
_QUOTE_OPENERS = OPENERS - {"the", "a", "an"}
_CODE = re.compile(r"(?<!`)(`+)(?!`)([^\n]{1,200}?)(?<!`)\1(?!`)")
_CALL = re.compile(r"(?<=\w)\s*\(.*$", re.DOTALL)
_CALL_OR_INDEX = re.compile(r"(?<=\w)\s*\(.*$|(?<=\w)\[.*$", re.DOTALL)
_VALUE = re.compile(r"(?<=\w)\s?[:=]=?\s?(?![:/]).*$", re.DOTALL)
_CODE_WORD = re.compile(r"-{0,2}[^\W\d][\w.:/+#-]*|/[\w./+-]+|\.[a-z]\w+", re.ASCII)
_SUFFIX = re.compile(
    r"\.(?:py|pyi|js|ts|jsx|tsx|rs|go|rb|java|c|h|cc|cpp|hpp|cs|sh|bat|ps1|html?|css|json|jsonl|ya?ml|toml|ini|cfg|conf|md|rst"
    r"|txt|csv|tsv|xml|sql|db|log|lock|png|jpe?g|gif|svg|pdf|docx?|xlsx?|pptx?|od[tps]|eml|zip|gz|xz|bz2|tar|deb|rpm|iso|whl"
    r"|exe|dll|so|org|com|net|io|dev|list|service)$"
)
# Not with suffixes that attributes, modules and products have too: "app.conf", "math.log", "django.db", "Node.js".
_FILE_NAME = re.compile(
    r"/.+|(?:file|dir)\d+|(?:.*/)?[^./]*\.(?:html?|css|json|csv|xml)"
    r"|.*\.(?:pyi?|jsx|tsx|rb|java|cc|cpp|hpp|sh|bat|ps1|jsonl|ya?ml|toml|ini|cfg|md|rst|txt|tsv|png|jpe?g|gif|svg|pdf|docx?"
    r"|xlsx?|pptx?|od[tps]|eml|zip|t?gz|xz|bz2|tar|deb|rpm|iso|whl|exe|dll)"
)
_LONGEST_CODE = 60
_LONGEST_PLACED = 200  # characters of a name before a place
_LEAST_PART = 4  # letters of the last part of a dotted name, to stand on its own
_OPENS_NAME = frozenset("([\"“‘'«`\x01*_")
_OPENING_WORDS = frozenset(word[0].upper() + word[1:] for word in OPENERS | VERBS)
_TITLE_MARKS = frozenset("*_\"“”„'‘’«»\x01")  # around a title
_ENGLISH = frozenset("the of and is was with that for".split())
_LEAST_FOREIGN = 3  # function words of a language that show that a text is written in it
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
    r"|__[a-z]\w*__"  # of Python's own methods
    r"|[a-z]\w+(?:\.[A-Za-z_]\w+)+"  # dotted.name
    r"|[a-z]+[A-Z]\w*"  # camelCase
    r"|(?:[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])(?:\.(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}(?![.\-+]?\w)"  # IPv4
    r"|[0-9]{4}\.[0-9]{4,5}(?:v[0-9]+)?"  # arXiv
    r"|(?<!-)[a-z][a-z0-9]+(?:-[a-z0-9]+)*-(?:[a-z]*[0-9][a-z0-9]*)"  # gpt-4, us-east-1
    r"|(?<!-)[a-z]+[0-9][a-z0-9]*"  # s3, oauth2
    r")(?!\w)"
)
_VERSION = re.compile(r"[vV]?[0-9]+(?:\.[0-9]+)*(?:[-+~.]\w+)*")
_VERSION_WORD = re.compile(  # or a word with the number of a footnote
    r"v[0-9]+|[a-z]{3,}(?:ions?|ments?|ly|ing|ed|ness|ity|ies|ous|able|ples?|ors?|ers)[0-9]{1,2}"
)
_COMMIT = re.compile(r"(?=.*[0-9].*[0-9])[0-9a-f]{7,40}")  # such as the hash of a commit
_NO_SPACES = re.compile(r"\S+")
_PLACE = re.compile(r"(?<=[^\s,]) (?:in|at|on)(?: the)? (?=\S)")
_URL = re.compile(  # with a scheme, of a known domain with a path, or an e-mail address
    r"(?<![\w@])(?:[a-z][a-z+.-]{1,9}://|www\.)[^\s<>\"`|]+"
    r"|(?<![\w@./-])(?:[\w-]+\.)+(?:com|org|net|io|dev|edu|gov)/[^\s<>\"`|]*"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+(?::\S+)?",
    re.IGNORECASE,
)
_TOKEN_END = re.compile(r"\s|$")
_SMALL_WORDS = re.compile(r"^(?:(?:for|from|short|of|the|or|as|in)\s+)+")
_EXPANSION = re.compile(r"\s?\(([^()]{4,80})\)")
_YEAR = re.compile(r"[12]\d{3}(?= )")
_DATING = re.compile(r"\b(?:in|since|by|until|from|during|of|after|before)[ \t]+$")
_LONGEST_NAME = 8
_JOINTS = frozenset({"in", "at", "on", "to"})  # after which another name may begin
_PART_NUMBER = re.compile(r"[A-Z](?:\.[0-9]+)+")  # of an appendix
_NO_NAME_ENDS = FUNCTION | REFERENCES | CALENDAR | CALENDAR_SHORT | OPENERS
_QUALIFIER = re.compile(
    r"(?<=\w\w)-(?:using|speaking|based|like|style|specific|related|only|aware|compatible|compliant|enabled|capable|born"
    r"|owned|led|run|made|style|wide|dependent|independent|level|side|generated|defined|provided|supplied)$"
)
_FROM = re.compile(r"\b(?:[Ff]rom|[Bb]etween)[ \t]+$")


def find_names(text: str, starts: frozenset[int] | set[int]) -> list[NameMatch]:
    """Return the names in a text without hard-wrapped lines, in order; ``starts`` are the offsets of its sentences.

    >>> [match.name for match in find_names("We asked the Bank of England about `kg_store` in 1997.", {0})]
    ['Bank of England', 'kg_store', '1997']
    """
    names = _capitalised(text, starts)
    count = len(names)
    names += _identifiers(text)
    marked, spans = _marked(text) if _MARKED_HINT.search(text) else ([], [])
    if "/" in text or "@" in text or "www." in text:
        spans += [match.span() for match in _URL.finditer(text)]
    if spans:
        names = outside(names, sorted(spans)) + marked
    if not text.isascii() and has_cjk(text):
        names += [NameMatch(*match) for match in find_cjk_names(text)]
    if marked or len(names) > count:
        names.sort(key=attrgetter("end"), reverse=True)
        names.sort(key=attrgetter("start"))
    return names


def _marked(text: str) -> tuple[list[NameMatch], list[tuple[int, int]]]:
    """Return the names in quotation marks and in inline code, and the spans in which no other name is found."""
    names = _quoted(text)
    spans = [(name.start, name.end) for name in names]
    for match in _CODE.finditer(text) if "`" in text else ():
        if "''" in match[2]:  # between two quotations of the form ``...''
            continue
        spans.append(match.span())
        for name in code_names(match[2]):
            start = max(text.find(name, match.start(2), match.end(2)), match.start(2))
            names.append(NameMatch(name, start, start + len(name)))
    return names, spans


def _quoted(text: str) -> list[NameMatch]:
    """Return the names and titles in quotation marks."""
    names = []
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 1
        name = match[group].strip(" ,.")
        words = name.split()
        is_title = 0 < len(words) <= 8 and name[0].isupper() and name[-1] not in "!?" and "`" not in name
        is_whole = name.count("(") == name.count(")") and name.count("[") == name.count("]") and "\x01" not in name
        if not (is_title and is_whole) or words[0].casefold() in _QUOTE_OPENERS:
            continue
        if len(words) > 1 or not (name.casefold() in NEVER_ALONE or name.casefold() in CALENDAR):
            at = text.find(name, match.start(group))
            names.append(NameMatch(name, at, at + len(name)))
    return names


def outside(names: list[NameMatch], spans: list[tuple[int, int]]) -> list[NameMatch]:
    """Return the names that are not inside any of the spans, which are sorted."""
    begins, ends = [start for start, _ in spans], [-1, *accumulate((end for _, end in spans), max)]
    return [name for name in names if name.end > ends[bisect_right(begins, name.start)]]


@lru_cache(maxsize=8_192)
def code_names(code: str) -> tuple[str, ...]:
    """Return the names in a piece of inline code: as it is written, and the end of a dotted name.

    A call, a value and punctuation are stripped. Numbers, expressions and command lines are not names.

    >>> code_names("~celery.app.task.Task.retry()"), code_names("--concurrency=10"), code_names("a + b")
    (('celery.app.task.Task.retry', 'Task.retry', 'retry'), ('--concurrency',), ())
    """
    code = _without_values(code.strip().lstrip("~!@$ ").strip("\"'`“”‘’.,;: "))
    words = code.split()
    if not 1 <= len(words) <= 2 or len(code) > _LONGEST_CODE or not all(map(_CODE_WORD.fullmatch, words)):
        return ()
    if len(words) == 2 and words[1] in PLACEHOLDERS:
        return code_names(words[0])
    if len(words) == 2:
        is_name = "/" not in code and words[0].isupper() == words[1].isupper()  # not "make NAME"
        return (code,) if is_name and all(word[-1] not in ".:" and word[0] != "-" for word in words) else ()
    return _dotted_names(code) if _is_code_name(code) else ()


def _without_values(code: str) -> str:
    """Return code without the arguments of a call, an index and the value of an option or assignment."""
    if code.endswith("]"):
        code = _CALL_OR_INDEX.sub("", code)
    elif "(" in code:
        code = _CALL.sub("", code)
    if code.startswith("-"):
        code = code.split("=", 1)[0]
    elif "=" in code or ":" in code:
        code = _VALUE.sub("", code)
    return code.rstrip("=:*.,;/- ")


def _is_code_name(code: str) -> bool:
    """Return whether one word of code is a name: not an address, a common word, a version or a file."""
    lower = code.casefold()
    if sum(map(str.isalpha, code)) < 2 or "//" in code or lower in NEVER_ALONE or lower in FUNCTION:
        return False
    return not (_URL.match(code) or any(other.fullmatch(code) for other in (_COMMIT, _VERSION, _FILE_NAME)))


def _dotted_names(code: str) -> tuple[str, ...]:
    """Return a name and its last parts, which may stand alone."""
    if "." not in code[1:] or "/" in code or _SUFFIX.search(code):
        return (code,)
    parts = [part for part in code.split(".") if part]
    ends = [".".join(parts[-2:])] if len(parts) > 2 and not parts[-2].isdigit() else []
    if len(parts[-1]) >= _LEAST_PART and parts[-1].casefold() not in NEVER_ALONE:
        ends.append(parts[-1])
    return tuple(dict.fromkeys((code, *ends)))


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
        if (after := _acronym_pattern().match(text, name.end)) and _abbreviates(after.group(1), name.name):
            pairs.append((after.group(1), name.name))
        elif (after := _EXPANSION.match(text, name.end)) and _abbreviates(name.name, after.group(1)):
            pairs.append((name.name, _SMALL_WORDS.sub("", after.group(1))))
    return pairs


def _capitalised(text: str, starts: frozenset[int] | set[int]) -> list[NameMatch]:
    """Return the names in runs of capitalised words, in order of position."""
    names: list[NameMatch] = []
    other = "" if text.isascii() else "".join(_NON_ASCII.findall(text))
    pattern = _run_pattern(_upper()) if any(map(str.isupper, other)) else _RUN_ASCII
    openers = None if " the " in text else _openers_of(text)
    has_joints = "_" in text
    new = tuple.__new__  # NameMatch(...) in a third of the time
    for match in pattern.finditer(text):
        run, at = match.group(), match.start()
        initial = at in starts or at - 1 in starts
        if run in _OPENING_WORDS and (initial or not _in_sentence(text, at)):
            continue
        if has_joints and text[match.end() : match.end() + 1] == "_":  # the start of an identifier
            run = run.rpartition(" ")[0]
        if openers:
            at, run, initial = _without_openers(run, at, initial, openers)
        is_inside = not initial and text[at - 2 : at] != ": "
        if is_inside and (_is_year(run) if run.isdigit() else _is_one_name(run)):
            names.append(new(NameMatch, (run, at, at + len(run), True)))
        elif not (is_inside and run.isdigit()):
            names += _names_at(text, run, at, match.end(), initial)
    if " in " in text or " at " in text:
        names = _without_places(names, starts)
    return names


def _is_one_name(run: str) -> bool:
    """Return whether a run inside a sentence is one name, as most are: :func:`_names_at` in short."""
    if run.isalpha():
        return run not in _OPENING_WORDS and bool(_names_in(run, False, False))
    words = run.split()
    if len(words) < 2 or words[0] in _OPENING_WORDS or not _is_whole_name(run, words):
        return False
    return len(words) < 3 or _JOINTS.isdisjoint(words)


def _names_at(text: str, run: str, at: int, end: int, initial: bool) -> list[NameMatch]:
    """Return the names in a run of a text. It starts at ``at`` and was longer if it does not end at ``end``."""
    initial = initial or _opens_clause(text, run, at, end)
    dated = len(run) > 5 and run[0] in "12" and _DATING.search(text, max(0, at - 9), at) is not None
    is_title = at > 0 and text[at - 1] in _TITLE_MARKS and text[end : end + 1] in _TITLE_MARKS
    if is_title:
        names = _names_of(run, initial, dated)
    elif " to " in run and _FROM.search(text, max(0, at - 9), at) is not None:  # "Arlanda to Lisbon"
        middle = run.index(" to ")
        rest = _names_in(run[middle + 4 :], False, dated)
        names = _names_in(run[:middle], initial, dated)
        names += tuple((name, middle + 4 + offset, certain) for name, offset, certain in rest)
    else:
        names = _names_in(run, initial, dated)
    new = tuple.__new__  # NameMatch(...) in a third of the time
    return [
        new(NameMatch, (name, at + start, at + start + len(name), certain))
        for name, start, certain in names
        if "." not in name or not _FILE_NAME.fullmatch(name)
    ]


def _opens_clause(text: str, run: str, at: int, end: int) -> bool:
    """Return whether the start of a clause or list item, or of a field's value, capitalises the first word of a run."""
    word, _, more = run.partition(" ")
    if text[max(at - 2, 0) : at] == ": ":  # "Note: Use the Session", "Title: Labels print twice"
        return (more or text[end + 1 : end + 2])[:1].islower()
    if word not in _OPENING_WORDS:
        return False
    return text[max(at - 2, 0) : at].rstrip()[-1:] not in _OPENS_NAME and not _in_sentence(text, at)


def _without_places(names: list[NameMatch], starts: frozenset[int] | set[int]) -> list[NameMatch]:
    """Return the names; a word and a place are two names if the text also has one of them alone."""
    if not any(" in " in name.name or " at " in name.name for name in names):
        return names
    known = {name.name for name in names}
    divided = []
    for name in names:
        head, joint, place = name.name.partition(" in " if " in " in name.name else " at ")
        place = place.removeprefix("the ")
        is_one = " " in head or place.startswith(("a ", "an "))  # "Night in a Turkish Bath"
        if joint and not is_one and (head in known or (place in known and name.start not in starts)):
            divided.append(NameMatch(head, name.start, name.start + len(head)))
            divided.append(NameMatch(place, name.end - len(place), name.end, place in known))
        else:
            divided.append(name)
    return divided


def _in_sentence(text: str, at: int) -> bool:
    """Return whether a word continues a sentence: a word in lower case or a comma precedes it."""
    before = text[max(at - 2, 0) : at].rstrip()[-1:]
    return before.islower() or before == ","


def _without_openers(run: str, at: int, initial: bool, openers: frozenset[str]) -> tuple[int, str, bool]:
    """Return a run without the words that open sentences, where it starts, and whether it still starts a sentence."""
    start, skipped = at, 0
    for word in run.split(" "):
        if not word or word.lower() not in openers:
            break
        skipped += len(word) + 1
    at, run = at + skipped, run[skipped:]
    return at, run if run[:1].isupper() or run[:1].isdigit() else "", initial and at == start


def _openers_of(text: str) -> frozenset[str]:
    """Return the words that open sentences in the language of a text; none if it is English or unknown."""
    words = set(text.lower().split())
    least = max(_LEAST_FOREIGN, 2 * len(words & _ENGLISH))
    found: frozenset[str] = frozenset()
    for openers, markers in LANGUAGE_OPENERS:
        if len(words & markers) >= least:
            least, found = len(words & markers) + 1, openers
    return found


@lru_cache(maxsize=8_192)  # the same names occur again and again
def _names_in(run: str, initial: bool, dated: bool) -> Names:
    """Return the names in a run of capitalised words.

    A name of several words and the place after it are two names: "Mara Lindqvist in Tallinn". The place is certain if
    the text names it elsewhere: a place that is named once links passages that have little in common. One word is the
    start of a title more often ("Alice in Wonderland"), and so are small words other than "of" ("Once Upon a Time in
    America").
    """
    if " in " not in run and " at " not in run and " on " not in run:
        return _names_of(run, initial, dated)
    names = list[tuple[str, int, bool]]()
    start = 0  # of the name that is read, and of the place before that
    for place in _PLACE.finditer(run):
        if place.start() - start > _LONGEST_PLACED:
            break
        words = run[start : place.start()].split()
        while words and words[0].lower() in (OPENERS if initial and start == 0 else FUNCTION):
            del words[0]
        is_dated = run[place.end() : place.end() + _LONGEST_PLACED].split(" ", 1)[0].casefold() in CALENDAR
        if is_dated or _has_place(words, place.group()):
            names.extend(_part_of(run, start, place.start(), initial, dated))
            start = place.end()
    return (*names, *_part_of(run, start, len(run), initial, dated))


def _has_place(words: list[str], joint: str) -> bool:
    """Return whether a place can follow a name of several words after " in the" or " at"."""
    small = {word for word in words if word.islower()}
    allowed = {"of"} if joint.startswith(" in") else set()
    capitals = sum(not word.islower() for word in words)
    return capitals > 1 and small <= allowed and not joint.startswith(" on")  # "Kelvaag Instruments on Monday"


def _part_of(run: str, start: int, end: int, initial: bool, dated: bool) -> Names:
    """Return the names in a part of a run. A place, which is not at the start, is certain if it is a year."""
    if start == 0:
        return _names_of(run[:end], initial, dated)
    names = _names_of(run[start:end], False, True)
    return tuple((name, start + offset, name[0].isdigit()) for name, offset, _ in names)


def _names_of(run: str, initial: bool, dated: bool) -> Names:
    """Return the names in a run that has no place.

    Words at both ends that are not part of a name are stripped, and the year of a date is split off.
    ``initial``: the run starts a sentence. ``dated``: a word such as "in" or "since" precedes it.
    """
    words = run.split()
    if not initial and _is_whole_name(run, words):
        return ((run, 0, True),)
    first, last = _bounds(words, initial)
    if not 1 <= last - first <= _LONGEST_NAME:
        return ()
    start, end = 0, len(run)
    if last - first < len(words):
        spans = [match.span() for match in _NO_SPACES.finditer(run)]
        start, end = spans[first][0], spans[last - 1][1]
    name = run[start:end].rstrip(",.")
    name = name[:-2] if name.endswith(("'s", "’s")) else name
    if last - first == 1:
        return _single_name(name, start, opens=initial if first == 0 else words[0][0].isdigit())
    if (first or dated) and (year := _YEAR.match(name)):
        return (year.group(), start, True), (name[5:].lstrip(), start + 5, True)
    is_initials = all(len(word.strip(".,")) < 2 for word in words[first:last])  # "A. R", "M Y"
    return () if is_initials else ((name, start, True),)


def _is_whole_name(run: str, words: list[str]) -> bool:
    """Return whether a run is one name, as most runs of several words are."""
    if not 1 < len(words) <= _LONGEST_NAME or not run[0].isalpha() or not run[-1].isalpha():
        return False
    has_ends = _NO_NAME_ENDS.isdisjoint((words[0].lower(), words[-1].lower()))
    return has_ends and run[-2] not in "'’" and "." not in run


def _bounds(words: list[str], initial: bool) -> tuple[int, int]:
    """Return where the name in some words starts and ends."""
    first, last = 0, len(words)
    droppable = OPENERS if initial else FUNCTION
    while first < last and words[first].lower().rstrip(".,") in droppable and not starts_name(words, first):
        first += 1
    while last > first and words[last - 1].lower() in FUNCTION and not _in_capitals(words[first:last][-2:]):
        last -= 1
    return without_numbering(words, first, last, initial) if last - first > 1 else (first, last)


def _single_name(word: str, start: int, *, opens: bool) -> Names:
    """Return a capitalised word or a number if it is a name on its own.

    ``opens``: it starts a sentence or follows a number, so that it may be capitalised for no other reason.
    """
    word = _QUALIFIER.sub("", word) if "-" in word else word
    lower = word.casefold()
    if word[:1].isdigit():
        is_name = _is_year(word)
    elif lower in CALENDAR or lower in NEVER_ALONE or is_adverb(word) or _PART_NUMBER.fullmatch(word):
        is_name = False
    else:
        is_name = 1 < len(word) <= _LONGEST_CODE
    return ((word, start, not (opens and word[1:].islower())),) if is_name else ()


def _is_year(word: str) -> bool:
    """Return whether a number is a year, and not "35", "1,200" or "90312"."""
    return len(word) == 4 and word[0] in "12" and word.isdigit()


def _in_capitals(words: list[str]) -> bool:
    """Return whether two words are in capitals, such as "ORDER BY"."""
    return len(words) == 2 and all(word.isupper() and len(word) > 1 for word in words)


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
            if not any(other.fullmatch(match.group()) for other in (_COMMIT, _VERSION_WORD, _FILE_NAME)):
                yield NameMatch(match.group(), match.start(), match.end())


def _abbreviates(short: str, long: str) -> bool:
    letters = [c for c in short.casefold() if c.isalnum()]
    words = [w for w in re.split(r"[\s\-]+", long.casefold()) if w]
    if not 2 <= len(letters) <= 10 or len(words) < 2:
        return False
    initials = [w[0] for w in words if w not in FUNCTION]
    return letters in (initials, [w[0] for w in words])
