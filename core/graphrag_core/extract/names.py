"""The name finder: candidates for names in a text, found by rules, without a model.

A candidate is a run of capitalised words joined by small connectors, a year, a quoted title, inline code or an
identifier. References ("Section 3.8"), dates, amounts and addresses are not candidates. Which candidates are names
is decided by :mod:`graphrag_core.extract.source_names`, by how their source uses them. In Chinese and Japanese text
:mod:`graphrag_core.text.cjk` finds the names.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, dropwhile
from operator import attrgetter
from typing import NamedTuple

from graphrag_core.text.cjk import find_cjk_names, has_cjk
from graphrag_core.text.words import (
    CALENDAR,
    CALENDAR_SHORT,
    CONNECTORS,
    FUNCTION,
    GENERIC_HEADINGS,
    GREETINGS,
    LANGUAGE_OPENERS,
    NEVER_ALONE,
    OPENERS,
    REFERENCES,
    TITLE_REFERENCES,
    VERBS,
    is_ordinary,
)

Words = list[tuple[str, int]]
"""The words of a run and their offsets in it."""


class NameMatch(NamedTuple):
    """A name and its position. A word that only the start of a sentence capitalises is not ``certain``."""

    name: str
    start: int
    end: int
    certain: bool = True


_MAX_WORDS, _MAX_CODE = 8, 60  # of a name; characters of inline code
_QUOTED = re.compile(r"“([^”\n]{2,80})”|``([^`\n]{2,80}?)''|\"([^\"\n]{2,80})\"")
_URL = re.compile(  # with a scheme, of a known domain with a path, or an e-mail address
    r"(?<![\w@])(?:[a-z][a-z+.-]{1,9}://|www\.)[^\s<>\"`|]+"
    r"|(?<![\w@./-])(?:[\w-]+\.)+(?:com|org|net|io|dev|edu|gov)/[^\s<>\"`|]*"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+(?::\S+)?",
    re.IGNORECASE,
)
# What every identifier has and ordinary words lack. Searching for this first is eight times as fast as _IDENTIFIER.
_HINT = re.compile(
    r"[_A-Z0-9.\-](?:(?<=_)|(?<=[a-z][A-Z0-9])|(?<=\w\.)(?=[A-Za-z_]\w|[0-9]+\.[0-9]|[0-9]{4})"
    r"|(?<=[a-z]-)(?=[a-z0-9]*[0-9]))"
)
_IDENTIFIER = re.compile(
    r"(?<![\w.])(?:[a-zA-Z]\w*(?:_\w+)+|__[a-z]\w*__|[a-z]\w+(?:\.[A-Za-z_]\w+)+|[a-z]+[A-Z]\w*"  # snake, dotted, camel
    r"|(?:[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])(?:\.(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}(?![.\-+]?\w)"  # IPv4
    r"|[0-9]{4}\.[0-9]{4,5}(?:v[0-9]+)?"  # arXiv
    r"|(?<!-)[a-z][a-z0-9]+(?:-[a-z0-9]+)*-(?:[a-z]*[0-9][a-z0-9]*)|(?<!-)[a-z]+[0-9][a-z0-9]*"  # gpt-4, s3
    r")(?!\w)"
)
_CODE = re.compile(  # a word or two; arguments, an index and a value are stripped
    r"[~!@$\s\"'`“‘]*(?P<name>-{0,2}[^\W\d](?:[\w.:/+#-]*[\w+#])?|/[\w./+-]*\w|\.[a-z]\w+)[*.,;:'\"`”’ ]*"
    r"(?P<second> [^\W\d][\w.-]*\w)?(?:\s?\(.*|\[.*|\s?[:=].*)?",
    re.ASCII | re.DOTALL,
)
_NO_CODE_NAME = re.compile(  # a file or folder, a version, the hash of a commit; attributes and products end like logs
    r"/.+|(?:file|dir)\d+|.*\.(?:pyi?|jsx|tsx|rb|java|cc|cpp|hpp|sh|bat|ps1|jsonl?|ya?ml|toml|ini|cfg|md|rst|txt|[ct]sv"
    r"|png|jpe?g|gif|svg|pdf|docx?|xlsx?|pptx?|od[tps]|eml|zip|t?gz|xz|bz2|tar|deb|rpm|iso|whl|exe|dll|html?|css|xml)"
    r"|[vV][0-9]+(?:\.[0-9]+)*(?:[-+~.]\w+)*|(?=.*[0-9].*[0-9])[0-9a-f]{7,40}"
)
_NUMBER = re.compile(r"[#§(]?(?:[0-9]+(?:[.,:/\-–][0-9]+)*(?:st|nd|rd|th|[a-z])?|[A-Z](?:\.[0-9]+)*|[IVX]+)[.,:)]*")
_LISTED = re.compile(r"[A-Z]?\.?[0-9]+(?:\.[0-9]+)+\.?|[A-Z]\.[0-9]+|[0-9]{5,}[.,:]?")  # the number of a section, a key
_YEAR = re.compile(r"(?:1[0-9]|20)[0-9]{2}")
_TAIL = re.compile(r"(?<=\w\w)-[a-z]{3,}$")  # "Unix-like"
_TOKEN_END = re.compile(r"\s|$")
_DATE_WORDS = CALENDAR | CALENDAR_SHORT | {"may"}
_ENGLISH = frozenset("the of and is was with that for".split())
_NEVER_NAMES = FUNCTION | REFERENCES | NEVER_ALONE
NO_NAMES = _NEVER_NAMES | OPENERS | VERBS
"""Words that are not names if they open a sentence and no other capitalised word follows."""
_OPENING = OPENERS | GREETINGS
_NOT_QUOTED = (OPENERS | NEVER_ALONE | CALENDAR) - {"the", "a", "an"}


@cache
def _run_pattern(all_capitals: bool) -> re.Pattern[str]:
    """Return the pattern of a run of capitalised words; three times as fast if only ASCII has capitals.

    It starts with a character class, not with an alternation: the regex engine can skip ahead to it.
    """
    upper = "A-Z"
    if all_capitals:  # no script has letter case beyond plane 1
        upper += "".join(filter(str.isupper, map(chr, range(0x80, 0x20000))))
    rest = r"[^\W_]*(?:['’.\-&/+][^\W_]+)*[+#]*"
    number = r"[\d.,]*(?<=\d)(?:st|nd|rd|th)?(?!\w)"
    titles = r"(?:M(?:rs?|s|t)|Dr|Prof|S[trg]|Sgt|Jr|Ft|Gen|Col|Lt|Capt|Rev|Hon|No|Vol)\."
    name = rf"(?:{titles}|(?:[{upper}]\.)+(?=\s[{upper}])|[{upper}]{rest})"
    first = (
        rf"[{upper}0-9](?<![\w@$#/].)"
        rf"(?:(?<=\d){number}"
        rf"|(?<!\d)(?:(?<=[MDPSJFGCLRHNV])(?:rs?|s|t|rof|gt|en|ol|apt|ev|on|o)\.|\.(?:[{upper}]\.)*(?=\s[{upper}])|{rest}))"
    )
    more = rf"[ \t]{{1,2}}(?:{name}|\d{number})|(?<!\d)[ \t]{{1,2}}(?:(?:{CONNECTORS}|&)[ \t]+){{1,2}}{name}"
    return re.compile(rf"{first}(?:{more})*")


def find_names(text: str, starts: frozenset[int]) -> list[NameMatch]:
    """Return the candidates in a text without hard-wrapped lines, in order; ``starts``: where its sentences start.

    >>> [match.name for match in find_names("We asked the Bank of England about kg_store in 1997.", frozenset({0}))]
    ['Bank of England', 'kg_store', '1997']
    """
    names: list[NameMatch] = []
    openers = frozenset() if " the " in text else _foreign_openers(text)
    all_capitals = not text.isascii() and any(map(str.isupper, set(text).difference(map(chr, range(128)))))
    for match in _run_pattern(all_capitals).finditer(text):
        run, at = match.group(), match.start()
        before, after = text[max(at - 2, 0) : at].rstrip()[-1:], text[match.end() : match.end() + 2]
        initial = at in starts or at - 1 in starts or not before or before in ".!?…;|•*—–\x01"
        if before == ":":  # "Title: Labels print twice", not "Author: Ada Lovelace"
            initial = initial or (run.partition(" ")[2][:1] or after[1:]).islower()
        if after[:1] == "_":  # the start of an identifier
            run = run.rpartition(" ")[0]
        names += [
            NameMatch(name, at + a, at + a + len(name), sure) for name, a, sure in _names_in(run, initial, openers)
        ]
    names += _identifiers(text)
    titles = [*_quoted(text)] if '"' in text or "“" in text or "``" in text else []
    spans = [(title.start, title.end) for title in titles]
    if "/" in text or "@" in text or "www." in text:
        spans += [match.span() for match in _URL.finditer(text)]
    if spans:
        names = outside(names, sorted(spans)) + titles
    if has_cjk(text):
        names += [NameMatch(*match) for match in find_cjk_names(text)]
    names.sort(key=attrgetter("end"), reverse=True)
    return sorted(names, key=attrgetter("start"))


def outside(names: list[NameMatch], spans: list[tuple[int, int]]) -> list[NameMatch]:
    """Return the names that are not inside any of the spans, which are sorted."""
    begins, ends = [start for start, _ in spans], [-1, *accumulate((end for _, end in spans), max)]
    return [name for name in names if name.end > ends[bisect_right(begins, name.start)]]


def _quoted(text: str) -> Iterator[NameMatch]:
    """Yield the names and titles in quotation marks."""
    for match in _QUOTED.finditer(text):
        name = match[match.lastindex or 1].strip(" ,.")
        words = name.split()
        if (
            1 <= len(words) <= _MAX_WORDS
            and name[0].isupper()
            and name[-1] not in "!?(["
            and not {"`", "\x01"} & {*name}
        ):
            is_title = len(words) > 1 and words[-1][0].isupper()
            if is_title or words[0].casefold() not in _NOT_QUOTED:
                at = text.find(name, match.start())
                yield NameMatch(name, at, at + len(name))


def _identifiers(text: str) -> Iterator[NameMatch]:
    """Yield the identifiers outside of code markup."""
    done = 0
    for hint in _HINT.finditer(text):
        if hint.start() >= done:
            start = max(done, *(text.rfind(space, done, hint.start()) + 1 for space in " \n\t"))
            end = _TOKEN_END.search(text, hint.end())
            done = end.start() if end else len(text)
            for match in _IDENTIFIER.finditer(text, start, done):
                if not _NO_CODE_NAME.fullmatch(match.group()):
                    yield NameMatch(match.group(), *match.span())


def _foreign_openers(text: str) -> frozenset[str]:
    """Return the words that open sentences in the language of a text; none if it is English or unknown."""
    words = set(text.lower().split())
    least = max(3, 2 * len(words & _ENGLISH))
    return next((openers for openers, markers in LANGUAGE_OPENERS if len(words & markers) >= least), frozenset())


# -- runs of capitalised words


@lru_cache(maxsize=16_384)  # the same names occur again and again
def _names_in(run: str, initial: bool, openers: frozenset[str]) -> tuple[tuple[str, int, bool], ...]:
    """Return the names in a run: name, offset, and whether it is certain.

    ``initial``: it starts a sentence. ``openers``: words that open sentences, if the text is not in English.

    A run is divided at references ("Bash Manual Section 3.8") and before places ("Mara Lindqvist in Tallinn"). A place
    is certain if the text names it elsewhere: one that is named once links passages that have little in common.
    """
    found: list[tuple[str, int, bool]] = []
    found_words = [(match.group(), match.start()) for match in re.finditer(r"\S+", run)]
    words = list(dropwhile(lambda word: word[0].lower() in openers, found_words))
    part: Words = []
    is_place = is_number = False
    for (word, start), (following, _) in zip(words, [*words[1:], ("", 0)], strict=False):
        lower = word.lower().rstrip(".,:")
        is_reference = lower in (TITLE_REFERENCES if part else REFERENCES) and _NUMBER.fullmatch(following) is not None
        divides = lower in ("in", "at", "on") and _can_end(part, lower, following)
        if not (is_reference or divides or is_number):
            part.append((word, start))
            if following:
                continue
        opens = initial and bool(part) and part[0][1] == 0
        for name, offset, certain in _names_of(run, part, opens):
            found.append((name, offset, certain and (not is_place or name[0].isdigit())))
        part, is_place, is_number = [], divides, is_reference
    return tuple(found)


def _can_end(part: Words, joint: str, following: str) -> bool:
    """Return whether a name of several words ends before a place or date. "Alice in Wonderland" is one name."""
    if following.casefold() in CALENDAR:
        return True
    if joint == "on" or len(part) > _MAX_WORDS:
        return False
    small = {word for word, _ in part if word.islower()}
    return len(part) - len(small) > 1 and small <= {"of" if joint == "in" else ""}


def _names_of(run: str, words: Words, opens: bool) -> Iterator[tuple[str, int, bool]]:
    """Yield the name in a sequence of words, and a year before it. ``opens``: they start a sentence or list item."""
    words, opens = _trimmed(words, opens)
    lower = [word.lower().rstrip(".,:") for word, _ in words]
    no_names = NO_NAMES if opens or len(words) > 1 else _NEVER_NAMES
    if not 1 <= len(words) <= _MAX_WORDS or all(map(no_names.__contains__, lower)):
        return
    numbers = [(word.rstrip(".,:"), start) for word, start in words if word[0].isdigit()]
    is_date = bool(numbers) and _is_date(lower)
    if numbers and _YEAR.fullmatch(numbers[0][0]) and (len(numbers) == 1 if is_date else words[0][0] == numbers[0][0]):
        yield (*numbers[0], True)
        words = words[1:]
    if not is_date and words:  # a day has no year
        yield from _name(run, words, lower[-len(words) :], opens)


def _name(run: str, words: Words, lower: list[str], opens: bool) -> Iterator[tuple[str, int, bool]]:
    """Yield a sequence of words, if it is a name."""
    name = run[words[0][1] : words[-1][1] + len(words[-1][0])].rstrip(",.")
    name = name.removesuffix("'s").removesuffix("’s")
    name = _TAIL.sub("", name) if len(words) == 1 else name
    if len(words) > 1:
        if name.lower() not in GENERIC_HEADINGS and max(map(len, lower)) > 1:  # not "A. R"
            yield name, words[0][1], True
    elif 1 < len(name) <= _MAX_CODE and lower[-1] not in CALENDAR and not _is_adverb(lower[-1]):
        is_file = "." in name and (_LISTED.fullmatch(name) or _NO_CODE_NAME.fullmatch(name))
        if not is_file:
            yield name, words[0][1], not (opens and name[1:].islower())


def _trimmed(words: Words, opens: bool) -> tuple[Words, bool]:
    """Return words without those at both ends that are not part of a name, and whether a sentence starts with them."""
    first, last, is_first = 0, len(words), True
    for (word, _), (following, _) in zip(words, [*words[1:], ("", 0)], strict=False):
        lower = word.lower().rstrip(".,:")
        if following and _LISTED.fullmatch(word):
            opens = is_first = True
        elif word[1:] == ".":  # "J. R. R. Tolkien", not "the language R. The"
            if following.lower() not in FUNCTION:
                break
        elif not opens or (word.isupper() and following.isupper() and len(word) > 1):  # "CREATE TABLE"
            if lower not in FUNCTION:
                break
        elif lower in _OPENING or (following and _is_adverb(lower)):
            is_first = False
        elif (following in ("the", "a", "an", "in", "on", "at") or following[1:].isupper()) and is_ordinary(lower):
            is_first = False  # "Review the PR", "Emit SQL"
        else:
            break
        first += 1
    while first < last - 1 and words[last - 1][0].lower() in FUNCTION and not words[last - 1][0].isupper():
        last -= 1
    return words[first:last], opens and is_first


def _is_date(lower: list[str]) -> bool:
    return all(word in _DATE_WORDS or word[0].isdigit() for word in lower)


def _is_adverb(lower: str) -> bool:
    return lower.endswith("ly") and is_ordinary(lower)


# -- inline code


@lru_cache(maxsize=8_192)
def code_names(code: str) -> tuple[str, ...]:
    """Return the names in a piece of inline code: as it is written, and the end of a dotted name.

    A call, a value and punctuation are stripped. Numbers, expressions and command lines are not names.

    >>> code_names("~celery.app.task.Task.retry()"), code_names("--concurrency=10"), code_names("a + b")
    (('celery.app.task.Task.retry', 'Task.retry', 'retry'), ('--concurrency',), ())
    """
    match = _CODE.fullmatch(code) if len(code) <= 2 * _MAX_CODE else None
    if match is None or len(name := match["name"]) > _MAX_CODE or "://" in code or "@" in code[1:]:
        return ()
    if second := match["second"]:  # "ORDER BY", not "make NAME"
        return (name + second,) if "/" not in name and name[0] != "-" and name.isupper() == second.isupper() else ()
    if sum(map(str.isalpha, name)) < 2 or name.casefold() in _NEVER_NAMES or _NO_CODE_NAME.fullmatch(name):
        return ()
    parts = [part for part in name.split(".") if part] if "/" not in name else []
    ends = [".".join(parts[-2:])] if len(parts) > 2 and not parts[-2].isdigit() else []
    if len(parts) > 1 and len(parts[-1]) >= 4 and parts[-1].casefold() not in NEVER_ALONE:
        ends.append(parts[-1])
    return tuple(dict.fromkeys((name, *ends)))
