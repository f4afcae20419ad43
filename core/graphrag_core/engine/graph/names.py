"""Which names are entities: decided by how the documents of the moment use them.

The rows hold every name that an extractor found. Some are no names: "See" is capitalised because it
starts a sentence, "Parameters" is the heading of every page, and an address may lead nowhere. The
decision is part of the view, so it does not depend on the order of additions, and a deletion or a
scope changes it as if the other documents had never been added.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.sparse import ranges
from graphrag_core.key_sets import distinct
from graphrag_core.text.lowercase_names import WORD_BITS

Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

OTHER, WORD, CAPITALS, ADDRESS = 0, 1, 2, 3
"""Forms of a name: a word as any text may have it ("Session", "session"), a word in capitals, the address of a
section, and all others."""

NEVER, AS_SUBJECT, ALWAYS = 0, 1, 2
"""Whether a name is an entity's: not at all, only where it is a chunk's subject, or in every mention."""

_BUCKETS = (1 << 20) - 3  # of the Bloom filter for words; a prime
MOST_TITLES = 4  # a heading under so many titles is generic, unless the text speaks of it
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
    mention_chunk, mention_name, mention_subject, mention_title
        The mentions, and the title of the chunk of each (see :func:`titles`).
    in_triple
        Whether a triple holds each name.
    lower_chunk, lower_spelling
        The mentions in lower case. Those of a spelling that is the subject of less than four chunks may be left out.
    is_word, word_chunks
        Whether each spelling is one word, and how many chunks have this word in lower case inside a sentence.
    """

    form: npt.NDArray[np.int8]
    spelling: Index
    mention_chunk: Index
    mention_name: Index
    mention_subject: Flags
    mention_title: Index
    in_triple: Flags
    lower_chunk: Index
    lower_spelling: Index
    is_word: Flags
    word_chunks: Index


def entity_names(uses: NameUses) -> tuple[npt.NDArray[np.int8], Flags]:
    """Return for each name whether it is an entity's, and for each spelling whether it is a common word.

    - An address is a name if some chunk has it.
    - A word is none if more chunks have it in lower case inside a sentence than mention it as a name,
      unless it is a title, or a triple holds it. As a heading or defined term it is one in that chunk alone.
    - A heading is none, in any form, if it stands under many titles and the text hardly speaks of it.
    """
    size = len(uses.is_word)
    spelling = uses.spelling[uses.mention_name]
    form = uses.form[uses.mention_name]
    as_word, as_capitals = (
        _distinct(spelling[rows], uses.mention_chunk[rows], size) for rows in (form == WORD, form == CAPITALS)
    )
    common, rare_in_capitals = ordinary_words(uses.word_chunks, as_word, as_capitals)
    subjects, titled = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    subjects[spelling[uses.mention_subject]] = True
    titled[spelling[uses.mention_title == spelling]] = True
    ordinary = np.where(form == WORD, common[spelling], (form == CAPITALS) & rare_in_capitals[spelling])
    generic = _generic_headings(uses, spelling, ordinary)
    counts = UseCounts(common, rare_in_capitals, subjects, titled, generic)
    return named_as(uses.form, uses.spelling, uses.in_triple, counts), common & ~titled


class UseCounts(NamedTuple):
    """What the uses of each spelling say.

    Attributes
    ----------
    common, rare_in_capitals
        Whether it is an ordinary word, see :func:`ordinary_words`.
    subjects, titled
        Whether it is the subject of a chunk, and the title of one.
    generic
        Whether it is a heading that names nothing, see :func:`generic_headings`.
    """

    common: Flags
    rare_in_capitals: Flags
    subjects: Flags
    titled: Flags
    generic: Flags


def ordinary_words(lower: Index, as_word: Index, as_capitals: Index) -> tuple[Flags, Flags]:
    """Return which spellings are ordinary words, and which of them are so in capitals too.

    The numbers are those of the chunks that have each spelling in lower case, as a word and in capitals.
    """
    return lower > as_word + as_capitals, lower > _CAPITALS_FACTOR * (as_capitals + as_word)


def generic_headings(under: Index, spoken: Index) -> Flags:
    """Return which spellings are headings under many titles of which the text hardly speaks.

    ``under`` is the number of titles, ``spoken`` that of the chunks that speak of it.
    """
    return (under >= MOST_TITLES) & (spoken < under)


def named_as(form: npt.NDArray[np.int8], spelling: Index, in_triple: Flags, counts: UseCounts) -> npt.NDArray[np.int8]:
    """Return for each name whether it is an entity's, by the uses of its spelling."""
    named = np.full(len(form), ALWAYS, np.int8)
    of_word = np.where(form == WORD, counts.common[spelling], (form == CAPITALS) & counts.rare_in_capitals[spelling])
    named[of_word & ~counts.titled[spelling]] = AS_SUBJECT
    named[counts.generic[spelling]] = NEVER
    named[in_triple] = ALWAYS
    address = form == ADDRESS
    named[address] = np.where(counts.subjects[spelling[address]], ALWAYS, NEVER)
    return named


def word_pairs(gram: Index) -> Flags:
    """Return which grams of facts are pairs of words."""
    found: Flags = (gram & ((1 << WORD_BITS) - 1) != 0) & (gram > 1 << WORD_BITS)
    return found


def words_of(pairs: Index) -> tuple[Index, Index]:
    """Return the words of pairs, by hash: of the first few bits are left (see ``graph_tables``), of the second all."""
    return pairs >> WORD_BITS, pairs & ((1 << WORD_BITS) - 1)


def is_word(gram: Index) -> Flags:
    """Return which grams of names are single words."""
    found: Flags = gram < 1 << WORD_BITS
    return found


def chunks_in_lower_case(spelling: Index, code: Index, chunk: Index, pairs: Index, spellings: int) -> Index:
    """Return for each spelling of one word how many chunks have it in lower case, beside another such word.

    ``spelling`` and ``code`` are the spellings and the hashes of their words, ``chunk`` and ``pairs`` the pairs of
    lower-case words inside sentences.
    """
    counts = np.zeros(spellings, np.int64)
    if len(code) == 0 or len(pairs) == 0:
        return counts
    order = np.lexsort((spelling, code))
    first = np.r_[True, (np.diff(code[order]) != 0) | (np.diff(spelling[order]) != 0)]
    codes, owner = code[order[first]], spelling[order[first]]
    may_match = np.zeros(_BUCKETS, np.bool_)
    may_match[codes % _BUCKETS] = True
    owners, chunks = [], []
    for words in words_of(pairs):
        rows = np.flatnonzero(may_match[words % _BUCKETS])
        start = np.searchsorted(codes, words[rows], "left")
        count = np.searchsorted(codes, words[rows], "right") - start  # different words may have the same hash
        owners.append(owner[ranges(start, count)])
        chunks.append(np.repeat(chunk[rows], count))
    return _distinct(np.concatenate(owners), np.concatenate(chunks), spellings)


def titles(chunk: Index, spelling: Index, subject: Flags, form: npt.NDArray[np.int8], chunks: int) -> Index:
    """Return the first subject of each chunk that is no address: its title, or its heading; -1 if it has none.

    ``chunk``, ``spelling``, ``subject`` and ``form`` are the mentions, those of a chunk in the order in which the
    extractor found them.
    """
    rows = np.flatnonzero(subject & (form != ADDRESS))
    _, first = np.unique(chunk[rows], return_index=True)
    title = np.full(chunks, -1, np.int64)
    title[chunk[rows[first]]] = spelling[rows[first]]
    return title


def _generic_headings(uses: NameUses, spelling: Index, ordinary: Flags) -> Flags:
    """Return which spellings are headings under many titles that the text does not speak of.

    ``spelling`` is that of each mention, ``ordinary`` are mentions of words that are no names.
    """
    size = len(uses.is_word)
    subject = np.flatnonzero(uses.mention_subject & (uses.form[uses.mention_name] != ADDRESS))
    under = _distinct(spelling[subject], uses.mention_title[subject], size)
    if not (under >= MOST_TITLES).any():
        return np.zeros(size, np.bool_)
    lower = ~uses.is_word[uses.lower_spelling]
    plain = np.flatnonzero(~uses.mention_subject & ~ordinary)
    spoken = _distinct(
        np.concatenate([spelling[plain], uses.lower_spelling[lower]]),
        np.concatenate([uses.mention_chunk[plain], uses.lower_chunk[lower]]),
        size,
    )
    return generic_headings(under, spoken)


def _distinct(owners: Index, values: Index, size: int) -> Index:
    """Return how many different values each owner has."""
    if len(owners) == 0:
        return np.zeros(size, np.int64)
    width = int(values.max()) + 1
    return np.bincount(distinct(owners * width + values) // width, minlength=size)
