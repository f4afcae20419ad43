"""Writes ``core/graphrag_core/text/ordinary_words.txt.gz``, the dictionary of :mod:`graphrag_core.text.dictionary`.

``python benchmarks/word_list.py WORDS LEMMAS``: WORDS is a SCOWL word list, such as ``american-english``
of Debian's ``wamerican``; LEMMAS is ``resources/lemma_lu.csv.gz`` of the package ``lemminflect``.

A word is ordinary if the list has it in lower case and not with a capital: "china" and "bill" are left to the document.
A plural has its singular beside it, if it is the plural of one common noun and nothing else.
"""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).parents[1] / "core" / "graphrag_core" / "text" / "ordinary_words.txt.gz"
NOTICE = """\
# Ordinary English words; a plural is followed by its singular. Made by benchmarks/word_list.py.
# From SCOWL, Copyright 2000-2020 by Kevin Atkinson: "Permission to use, copy, modify, distribute and sell these word
# lists, the associated scripts, the output created from the scripts, and its documentation for any purpose is hereby
# granted without fee, provided that the above copyright notice appears in all copies and that both that copyright
# notice and this permission notice appear in supporting documentation. Kevin Atkinson makes no representations about
# the suitability of this array for any purpose. It is provided "as is" without express or implied warranty."
# Plurals from lemminflect, Copyright 2019 Brad Jascob, MIT licence.
"""


def ordinary_words(path: Path) -> list[str]:
    listed = {word.strip() for word in path.read_text("utf-8").splitlines()}
    words = {word for word in listed if word.isascii() and word.isalpha()}
    names = {word.lower() for word in words if not word.islower()}
    return sorted(word for word in words if word.islower() and word not in names and len(word) > 1)


def main() -> None:
    ordinary = ordinary_words(Path(sys.argv[1]))
    nouns: dict[str, set[str]] = defaultdict(set)
    with gzip.open(sys.argv[2], "rt", encoding="utf-8") as rows:
        for row in rows:
            form, kind, lemmas = row.strip().split(",")
            if kind == "noun":
                nouns[form].update(lemmas.split("/"))
    known = set(ordinary)
    lines = []
    for word in ordinary:
        singular = next(iter(nouns[word])) if len(nouns[word]) == 1 else word
        lines.append(f"{word} {singular}" if singular != word and singular in known else word)
    TARGET.write_bytes(gzip.compress((NOTICE + "\n".join(lines) + "\n").encode(), 9, mtime=0))
    print(f"{len(lines):,} words, {sum(' ' in line for line in lines):,} plurals, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
