"""What is not a name in a run of capitalised words and numbers: references, dates, amounts, greetings and adverbs."""

import re

from graphrag_core.text.words import (
    CALENDAR,
    CALENDAR_SHORT,
    CURRENCIES,
    FUNCTION,
    GREETINGS,
    NEVER_ALONE,
    OPENERS,
    REFERENCES,
    TITLE_REFERENCES,
)

_NUMBER = re.compile(r"[#§(]?(?:[0-9]+(?:[.,:/\-–][0-9]+)*(?:st|nd|rd|th|[a-z])?|[A-Z](?:\.[0-9]+)*|[IVX]+)[.,:)]*")
_DIGITS = re.compile(r"[0-9]+(?:[.,:/\-–][0-9]+)*(?:st|nd|rd|th)?[.,:]?")
_LABELS = frozenset("NOTE NOTES TIP TIPS HINT WARNING CAUTION IMPORTANT DANGER ATTENTION TODO FIXME EXAMPLE".split())
_INITIAL = re.compile(r"[A-Z]\.")
_TICKET = re.compile(r"[0-9]{5,}[.,:]?")
_LISTED = re.compile(
    r"[A-Z]?\.?[0-9]+(?:\.[0-9]+)+\.?|[A-Z]\.[0-9]+|[0-9]{5,}[.,:]?|(?:[CM]-)+\S"
)  # a section, ticket or key
_YEAR = re.compile(r"(?:1[0-9]|20)[0-9]{2}")
_VERSION = re.compile(
    r"\W*(?!\W)(?:(?:(?:version|released?|v)[ :.]*)?\d+(?:\.\w+)+\b|\d{4}-\d\d(?:-\d\d)?\b|unreleased\b)", re.IGNORECASE
)
_ADVERB = re.compile(r"[A-Z][a-z]{2,}(?:al|ic|iv|ous|ing|ed|ent|ant|ar|ful|less|at|it|et|ab|ib)e?ly")
_OF_DATES = CALENDAR | CALENDAR_SHORT | {"may"}
_SMALL = 3  # digits from which on a number before a word may be a year


def is_adverb(word: str) -> bool:
    """Return whether a capitalised word is an adverb, such as "Conventionally"."""
    return _ADVERB.fullmatch(word) is not None


def is_version(heading: str) -> bool:
    """Return whether a heading is a version or a date: a section of a change log, not a name or title.

    >>> is_version("v2.1.0 (2024-06-17)"), is_version("Unreleased"), is_version("3D graphics")
    (True, True, False)
    """
    return _VERSION.match(heading) is not None


def is_reference(words: list[str], at: int) -> bool:
    """Return whether a word and the number after it refer to a part of a document, such as "Section 3.8"."""
    is_part = words[at].lower().rstrip(".,:") in REFERENCES
    return is_part and at + 1 < len(words) and _NUMBER.fullmatch(words[at + 1]) is not None


def starts_name(words: list[str], at: int) -> bool:
    """Return whether a function word is an initial, or refers to a part of a document with the number after it."""
    return _INITIAL.fullmatch(words[at]) is not None or is_reference(words, at)


def without_numbering(words: list[str], first: int, last: int, initial: bool) -> tuple[int, int]:
    """Return where the name starts and ends in some words of a run; an empty range if there is none.

    ``initial``: the run starts a sentence.

    >>> [without_numbering(run.split(), 0, 3, True) for run in ("Section 3.8 Widgets", "Dear Mr. Kask", "4 March 2024")]
    [(2, 3), (1, 3), (0, 0)]
    """
    lower = [word.lower().rstrip(".,:") for word in words]
    if initial and lower[first] in GREETINGS:
        first += 1
    first = _after_labels(words, first, last)
    if initial and last - first > 1 and is_adverb(words[first]):
        first += 1
    while last - first > 1 and _TICKET.fullmatch(words[last - 1]):
        last -= 1
    if last - first > 1 and _INITIAL.fullmatch(words[first]) and words[first + 1].lower() in FUNCTION:  # "S. The R"
        first += 2
    first, last = _without_references(words, lower, first, last)
    if _is_date(lower[first:last]):
        return _year(lower, first, last)
    if last - first == 2 and _is_amount(words[first:last], lower[first:last]):
        return first, first
    return first, last


def _after_labels(words: list[str], first: int, last: int) -> int:
    """Return where the words start after labels such as "NOTE" and the numbers of sections and tickets."""
    while last - first > 1 and words[first] in _LABELS:  # "NOTE UEFI"
        first += 1
    while last - first > 1 and _is_listed(words[first : first + 2]):
        first += 1
        while first < last - 1 and words[first].lower() in OPENERS and not is_reference(words, first):
            first += 1
    return first


def _is_date(lower: list[str]) -> bool:
    """Return whether words are numbers and words of the calendar, with at least one number."""
    has_number = any(word[0].isdigit() for word in lower if word)
    return has_number and all(word in _OF_DATES or _DIGITS.fullmatch(word) for word in lower)


def _is_listed(words: list[str]) -> bool:
    """Return whether the first of two words is the number of a section, a ticket or a footnote."""
    if words[0].isdigit() and len(words[0]) <= _SMALL and is_adverb(words[1]):  # "91 Typically"
        return True
    is_ticket = words[0].isdigit() and _TICKET.fullmatch(words[1]) is not None
    return is_ticket or _LISTED.fullmatch(words[0]) is not None


def _without_references(words: list[str], lower: list[str], first: int, last: int) -> tuple[int, int]:
    if last - first > 2 and lower[first] in OPENERS and lower[first + 1] in REFERENCES:  # "See Section 3.8"
        first += 1
    if last - first > 1 and is_reference(words, first):
        first += 2
        while first < last and (lower[first] in FUNCTION or _DIGITS.fullmatch(words[first])):
            first += 1
    if last - first > 1 and lower[last - 2] in TITLE_REFERENCES and _NUMBER.fullmatch(words[last - 1]):
        last -= 2
        while last > first and lower[last - 1] in FUNCTION:
            last -= 1
    return first, last


def _year(lower: list[str], first: int, last: int) -> tuple[int, int]:
    """Return where the year is in "October 2005", or a number that stands alone. A day and a telephone have none."""
    if last - first == 1:
        return first, last
    numbers = [at for at in range(first, last) if lower[at][0].isdigit()]
    is_year = len(numbers) == 1 and _YEAR.fullmatch(lower[numbers[0]])
    return (numbers[0], numbers[0] + 1) if is_year else (first, first)


def _is_amount(words: list[str], lower: list[str]) -> bool:
    """Return whether two words are an amount of money, or the number of a footnote and its first word."""
    is_footnote = words[0].isdigit() and len(words[0]) <= _SMALL and (lower[1] in OPENERS or lower[1] in NEVER_ALONE)
    return is_footnote or (words[0] in CURRENCIES and words[1][0].isdigit())
