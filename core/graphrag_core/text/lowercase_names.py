"""Known names written in lower case, as the first word of a sentence, or in Chinese or Japanese.

"The auth service" mentions an entity once any document writes "Auth Service", whichever
document was added first. So matching cannot happen while a document is read. Instead each name
and each sentence is stored as a set of hashes of lower-case word pairs ("grams"), and a sentence
mentions a name if it contains all of the name's grams.

Chinese and Japanese have neither capitals nor spaces, so that a name inside a sentence cannot be seen
at all, only known. There the grams are hashes of three characters in a row.

Every sentence of every document is hashed, so this is done in numpy, one batch at a time.
"""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from graphrag_core.text.cjk import CJK, PARTICLES
from graphrag_core.text.words import FUNCTION

Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_END = "\x00"  # separates sentences; no stored text contains it
_WORD = re.compile(rf"[^\W_]+|{_END}")
_MOST_WORDS = 5
WORD_BITS = 24  # of the hash of a word; engines keep 40 bits of a gram, so 16 bits of the first word of a pair

_CJK_NAME = re.compile(f"[{CJK}]{{3,}}")
_CJK_TEXT = re.compile(f"[{CJK}]{{3}}")
_CJK_RANGES = [(ord(a), ord(b)) for a, b in re.findall("(.)-(.)", CJK)]
_KANA = (0x3040, 0x309F)  # hiragana, which is mostly grammar
_CJK_GRAMMAR = np.sort(np.array([ord(c) for c in PARTICLES], np.uint32))

_IS_WORD = np.array([chr(c).isalnum() and c < 128 for c in range(256)])
_FACTOR = 0x9E3779B97F4A7C15
_POWERS = np.array([pow(_FACTOR, i + 1, 1 << 64) for i in range(256)], np.uint64)


def name_grams(norms: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return the grams of normalised names, as pairs of a name's position and a gram.

    A gram of more than ``WORD_BITS`` bits is a pair of words, or three characters. A smaller one is a single word,
    which is only matched at the start of a sentence. Names of function words or of more than five words have no
    grams, nor have Chinese and Japanese names of less than three characters.
    """
    norms = []
    cjk = [at for at, norm in enumerate(norms) if not norm.isascii() and _CJK_NAME.fullmatch(norm)]
    words: list[str] = []
    names, sizes = [], []
    for at, norm in enumerate(norms):
        parts = norm.split(" ")
        if len(parts) == 1:
            usable = len(norm) > 2 and norm.isalpha() and (norm.isascii() or not _CJK_NAME.fullmatch(norm))
        else:
            usable = (
                len(parts) <= _MOST_WORDS and FUNCTION.isdisjoint(parts) and min(map(len, parts)) > 1
            )  # not "don t"
        if usable:
            words += parts
            names.append(at)
            sizes.append(len(parts))
    code, size = _codes(_hash_words(words)), np.array(sizes, np.int64)
    name = np.repeat(np.array(names, np.int64), size)
    alone = np.repeat(size, size) == 1
    pair = np.flatnonzero(name[:-1] == name[1:])
    owner = name[np.concatenate([np.flatnonzero(alone), pair])]
    grams = np.concatenate([code[alone], code[pair] << WORD_BITS | code[pair + 1]])
    if not cjk:
        return owner, grams
    of_cjk, cjk_gram = _character_grams([norms[at] for at in cjk])
    return np.concatenate([owner, np.array(cjk, np.int64)[of_cjk]]), np.concatenate([grams, cjk_gram])


def sentence_grams(sentences: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return the grams of sentences, as pairs of a sentence's position and a gram.

    >>> def mentions(name, *sentences):
    ...     return set(name_grams([name])[1].tolist()) <= set(sentence_grams(sentences)[1].tolist())
    >>> mentions("auth service", "Ask the auth service first.")
    True
    >>> mentions("redis", "Redis keeps the sessions."), mentions("redis", "They keep it in redis.")
    (True, False)
    >>> mentions("开放授权提供商", "开放授权提供商与钥匙环公司通信")
    True
    """
    ascii_only = np.array([sentence.isascii() for sentence in sentences], np.bool_)
    owners, grams = [], []
    for positions, read in ((np.flatnonzero(ascii_only), _ascii_words), (np.flatnonzero(~ascii_only), _unicode_words)):
        if not len(positions):
            continue
        sentence, hashes, lower, opens = read([sentences[at] for at in positions.tolist()])
        nearest = np.minimum(np.searchsorted(_FUNCTION_HASHES, hashes), len(_FUNCTION_HASHES) - 1)
        code = np.where(_FUNCTION_HASHES[nearest] != hashes, _codes(hashes), 0)  # 0 for a function word
        opening = opens[code[opens] > 0]
        word = lower & (code > 0)
        pair = np.flatnonzero(word[:-1] & word[1:] & (sentence[:-1] == sentence[1:]))
        owners += [positions[sentence[pair]], positions[sentence[opening]]]
        grams += [code[pair] << WORD_BITS | code[pair + 1], code[opening]]
    cjk = [at for at in np.flatnonzero(~ascii_only).tolist() if _CJK_TEXT.search(sentences[at])]
    if cjk:
        sentence, gram = _character_grams([sentences[at] for at in cjk])
        owners.append(np.array(cjk, np.int64)[sentence])
        grams.append(gram)
    return np.concatenate(owners or [np.empty(0, np.int64)]), np.concatenate(grams or [np.empty(0, np.int64)])


def _character_grams(texts: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return a hash of each three Chinese or Japanese characters in a row, but for those of grammar alone.

    The lower ``WORD_BITS`` bits of such a gram are 0, which no pair of words has.
    """
    data = np.frombuffer((_END + _END.join(texts) + _END).encode("utf-32-le", "surrogatepass"), np.uint32)
    is_cjk = np.zeros(len(data), np.bool_)
    for first, last in _CJK_RANGES:
        is_cjk |= (data >= first) & (data <= last)
    nearest = np.minimum(np.searchsorted(_CJK_GRAMMAR, data), len(_CJK_GRAMMAR) - 1)
    grammar = (_CJK_GRAMMAR[nearest] == data) | ((data >= _KANA[0]) & (data <= _KANA[1]))
    run = is_cjk[:-2] & is_cjk[1:-1] & is_cjk[2:]
    at = np.flatnonzero(run & ~(grammar[:-2] & grammar[1:-1]) & ~(grammar[1:-1] & grammar[2:]))
    hashes = (
        data[at].astype(np.uint64) * _POWERS[0]
        + data[at + 1].astype(np.uint64) * _POWERS[1]
        + data[at + 2].astype(np.uint64) * _POWERS[2]
    )
    return np.cumsum(data == 0)[at] - 1, _codes(hashes) << WORD_BITS


def _ascii_words(sentences: Sequence[str]) -> tuple[Numbers, Hashes, Flags, Numbers]:
    """Return for each word its sentence, its hash and whether it starts in lower case.

    Also return the positions of words that start a sentence in upper case. They are hashed in lower case.
    """
    data = np.frombuffer((_END + _END.join(sentences) + _END).encode(), np.uint8)
    inside = _IS_WORD[data]
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    start, length = edges[::2], edges[1::2] - edges[::2]
    sentence = np.cumsum(data == 0)[start] - 1
    initial = data[start]
    opens = np.flatnonzero((np.diff(sentence, prepend=-1) > 0) & (initial >= ord("A")) & (initial <= ord("Z")))
    hashes = _hash_slices(data, start, length)
    lower = np.where((data >= ord("A")) & (data <= ord("Z")), data | 0x20, data).astype(np.uint8)
    hashes[opens] = _hash_slices(lower, start[opens], length[opens])
    return sentence, hashes, (initial >= ord("a")) & (initial <= ord("z")), opens


def _unicode_words(sentences: Sequence[str]) -> tuple[Numbers, Hashes, Flags, Numbers]:
    """Return the same as :func:`_ascii_words`, for sentences with other characters."""
    words = _WORD.findall(_END + _END.join(sentences))
    ends = np.array([word == _END for word in words], np.bool_)
    lower = np.array([word[0].islower() for word in words], np.bool_)
    opens = [i for i in (np.flatnonzero(ends[:-1]) + 1).tolist() if words[i][0].isupper()]
    for i in opens:
        words[i] = words[i].casefold()
    return np.cumsum(ends) - 1, _hash_words(words), lower, np.array(opens, np.int64)


def _hash_words(words: Sequence[str]) -> Hashes:
    data = [word.encode("utf-8", "surrogatepass") for word in words]
    length = np.fromiter(map(len, data), np.int64, len(data))
    return _hash_slices(np.frombuffer(b"".join(data), np.uint8), np.cumsum(length) - length, length)


def _hash_slices(data: npt.NDArray[np.uint8], start: Numbers, length: Numbers) -> Hashes:
    """Return a 64-bit polynomial hash of each slice of the data."""
    if len(start) == 0:
        return np.empty(0, np.uint64)
    before = np.cumsum(length) - length
    place = np.arange(int(length.sum())) - np.repeat(before, length)
    product = data[place + np.repeat(start, length)] * _POWERS[place & 255]
    return np.add.reduceat(product, before, dtype=np.uint64)


def _codes(hashes: Hashes) -> Numbers:
    """Return ``WORD_BITS`` bits of each hash, never 0."""
    mixed = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(_FACTOR)
    return (mixed >> np.uint64(64 - WORD_BITS)).astype(np.int64) | 1


_FUNCTION_HASHES = np.sort(_hash_words(sorted(FUNCTION)))
