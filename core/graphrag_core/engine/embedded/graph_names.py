"""Which names are entities: decided by how the documents of the moment use them.

The rows hold every name that an extractor found. Some are no names: "See" is capitalised because it
starts a sentence, "Parameters" is the heading of every page, and an address may lead nowhere. The
decision is part of the view, so it does not depend on the order of additions, and a deletion or a
scope changes it as if the other documents had never been added.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

OTHER, WORD, CAPITALS, ADDRESS = 0, 1, 2, 3
"""Forms of a name: a word as any text may have it ("Session", "session"), a word in capitals, the address of a
section, and all others."""

NEVER, AS_SUBJECT, ALWAYS = 0, 1, 2
"""Whether a name is an entity's: not at all, only where it is a chunk's subject, or in every mention."""

_BUCKETS = (1 << 20) - 3  # of the Bloom filter for words; a prime
_WORD_BITS = 31
_MOST_TITLES = 4  # a heading under so many titles is generic, unless the text speaks of it
_CAPITALS_FACTOR = 3  # a word in capitals is a name unless it is so many times as frequent in lower case


def name_form(surface: str, norm: str) -> int:
    """Return the form of a name.

    >>> [name_form(name, name.lower()) for name in ("Session", "session", "SELECT", "GraphView", "→a#b", "A B")]
    [1, 1, 2, 0, 3, 0]
    """
    if surface[:1] == "→":
        return ADDRESS
    if not (surface.isalpha() and norm.isalpha()):
        return OTHER
    return WORD if surface[1:].islower() else CAPITALS if surface.isupper() else OTHER


class NameUses(NamedTuple):
    """Where names are used, by position: of a name, of a spelling (the names of one normal form) and of a chunk.

    Attributes
    ----------
    form, spelling
        Of each name.
    mention_chunk, mention_name, mention_subject
        The mentions, those of a chunk in the order in which the extractor found them, subjects first.
    triple_names
        The names that triples hold.
    lower_chunk, lower_spelling
        The mentions in lower case.
    word_spelling, word_code
        The spellings of one word, and the hash of the word.
    gram_chunk, gram
        The pairs of lower-case words inside sentences.
    chunks, spellings
        How many there are.
    """

    form: npt.NDArray[np.int8]
    spelling: Index
    mention_chunk: Index
    mention_name: Index
    mention_subject: Flags
    triple_names: Index
    lower_chunk: Index
    lower_spelling: Index
    word_spelling: Index
    word_code: Index
    gram_chunk: Index
    gram: Index
    chunks: int
    spellings: int


def entity_names(uses: NameUses) -> tuple[npt.NDArray[np.int8], Flags]:
    """Return for each name whether it is an entity's, and for each spelling whether it is a common word.

    - An address is a name if some chunk has it.
    - A word is none if more chunks have it in lower case inside a sentence than mention it as a name,
      unless it is a title, or a triple holds it. As a heading or defined term it is one in that chunk alone.
    - A heading is none, in any form, if it stands under many titles and the text hardly speaks of it.
    """
    spelling = uses.spelling[uses.mention_name]
    form = uses.form[uses.mention_name]
    lower = _chunks_in_lower_case(uses)
    as_word, as_capitals = (
        _distinct(spelling[rows], uses.mention_chunk[rows], uses.spellings) for rows in (form == WORD, form == CAPITALS)
    )
    common = lower > as_word + as_capitals
    rare_in_capitals = lower > _CAPITALS_FACTOR * (as_capitals + as_word)

    subject = np.flatnonzero(uses.mention_subject)
    subjects, titles = np.zeros(uses.spellings, np.bool_), np.zeros(uses.spellings, np.bool_)
    subjects[spelling[subject]] = True
    title = _titles(uses, spelling)
    titles[title[title >= 0]] = True
    ordinary = np.where(form == WORD, common[spelling], (form == CAPITALS) & rare_in_capitals[spelling])
    generic = _generic_headings(uses, spelling, title, ordinary)

    named = np.full(len(uses.form), ALWAYS, np.int8)
    of_word = np.where(
        uses.form == WORD, common[uses.spelling], (uses.form == CAPITALS) & rare_in_capitals[uses.spelling]
    )
    named[of_word & ~titles[uses.spelling]] = AS_SUBJECT
    named[generic[uses.spelling]] = NEVER
    named[uses.triple_names] = ALWAYS
    address = uses.form == ADDRESS
    named[address] = np.where(subjects[uses.spelling[address]], ALWAYS, NEVER)
    return named, common & ~titles


def _chunks_in_lower_case(uses: NameUses) -> Index:
    """Return for each spelling of one word how many chunks have it in lower case, beside another such word."""
    order = np.argsort(uses.word_code, kind="stable")
    codes, owner = uses.word_code[order], uses.word_spelling[order]
    counts = np.zeros(uses.spellings, np.int64)
    if len(codes) == 0 or len(uses.gram) == 0:
        return counts
    may_match = np.zeros(_BUCKETS, np.bool_)
    may_match[codes % _BUCKETS] = True
    owners, chunks = [], []
    for words in (uses.gram >> _WORD_BITS, uses.gram & ((1 << _WORD_BITS) - 1)):
        rows = np.flatnonzero(may_match[words % _BUCKETS])
        place = np.minimum(np.searchsorted(codes, words[rows]), len(codes) - 1)
        found = codes[place] == words[rows]
        owners.append(owner[place[found]])
        chunks.append(uses.gram_chunk[rows[found]])
    return _distinct(np.concatenate(owners), np.concatenate(chunks), uses.spellings)


def _titles(uses: NameUses, spelling: Index) -> Index:
    """Return the first subject of each chunk that is no address: its title, or its heading; -1 if it has none."""
    subject = np.flatnonzero(uses.mention_subject & (uses.form[uses.mention_name] != ADDRESS))
    _, first = np.unique(uses.mention_chunk[subject], return_index=True)
    title = np.full(uses.chunks, -1, np.int64)
    title[uses.mention_chunk[subject[first]]] = spelling[subject[first]]
    return title


def _generic_headings(uses: NameUses, spelling: Index, title: Index, ordinary: Flags) -> Flags:
    """Return which spellings are headings under many titles that the text does not speak of.

    ``spelling`` is that of each mention, ``ordinary`` are mentions of words that are no names.
    """
    subject = np.flatnonzero(uses.mention_subject & (uses.form[uses.mention_name] != ADDRESS))
    titles = _distinct(spelling[subject], title[uses.mention_chunk[subject]], uses.spellings)
    if not (titles >= _MOST_TITLES).any():
        return np.zeros(uses.spellings, np.bool_)
    several_words = np.ones(uses.spellings, np.bool_)
    several_words[uses.word_spelling] = False
    lower = several_words[uses.lower_spelling]
    plain = np.flatnonzero(~uses.mention_subject & ~ordinary)
    spoken = _distinct(
        np.concatenate([spelling[plain], uses.lower_spelling[lower]]),
        np.concatenate([uses.mention_chunk[plain], uses.lower_chunk[lower]]),
        uses.spellings,
    )
    return (titles >= _MOST_TITLES) & (spoken < titles)


def _distinct(owners: Index, values: Index, size: int) -> Index:
    """Return how many different values each owner has."""
    if len(owners) == 0:
        return np.zeros(size, np.int64)
    width = int(values.max()) + 1
    return np.bincount(np.unique(owners * width + values) // width, minlength=size)
