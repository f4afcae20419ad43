"""Questions for an evaluation, from files, and what counts as their answer in an index."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from graphrag_core.errors import FileError, InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk
from graphrag_core.text import has_cjk
from graphrag_core.text.words import CJK_WORD, WORD

_MARKUP = re.compile(
    r"</?[a-zA-Z][^<>]*>|:[\w+.-]+(?::[\w+.-]+)*:(?=`)|\{[\w:.-]+\}(?=`)|\s*<[^<>]*>(?=`)|\]\([^()]*\)"
)
_SHARE = 0.75  # of a quote's word pairs that a passage must have
_LEAST_PAIRS = 12  # a passage with fewer is too short to be recognised as a part of a longer reference
_SEARCHED = 300  # passages that are searched for a quote, to tell whether the index has it


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, if known, what answers it.

    Parameters
    ----------
    text
        The question.
    gold
        The ids of the documents that answer it. A chunk's id is taken as well.
    evidence
        Quotes from the passages that answer it, where ids are not known. A passage counts if it contains the quote
        (:func:`contains`).
    type
        A kind of question, such as "bridge": reports show each kind by itself.
    id
        For the reader of a report.
    """

    text: str
    gold: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    type: str = ""
    id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a row of a JSON Lines file that :func:`load_questions` reads."""
        row = {("question" if name == "text" else name): value for name, value in asdict(self).items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items() if value}


# -- files


def load_questions(source: Any) -> list[Question]:
    """Read questions from a file or a list.

    Parameters
    ----------
    source
        - a text file with one question in each line;
        - JSON Lines with ``question``, and optionally ``gold`` (document ids), ``evidence`` (quotes, or objects with
          ``quote``), ``type`` and ``id``;
        - CSV or TSV with columns of these names; several ids or quotes in a cell are separated by ``|``;
        - an iterable of :class:`Question` or of mappings.

    Raises
    ------
    FileError
        A file cannot be read; the message has its name and the line.
    """
    if isinstance(source, (str, Path)):
        rows: Iterable[tuple[str, Any]] = _file_rows(Path(source))
    elif isinstance(source, Iterable):
        rows = ((f"the {type(source).__name__}, item {number}", row) for number, row in enumerate(source, 1))
    else:
        raise InputError(f"{source!r:.80} has no questions: give a path or a list of Question")
    questions = [row if isinstance(row, Question) else _question(row, place) for place, row in rows]
    if not questions:
        raise FileError(f"{source!s:.200}: contains no questions")
    return questions


def _file_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the questions of a file: where each is, and a mapping."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"{path}: cannot be read ({reason})") from error
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        yield from _table_rows(path, text, "\t" if kind == ".tsv" else None)
        return
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}, line {number}"
        if line.lstrip().startswith("{"):
            try:
                yield where, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileError(f"{where}: invalid JSON ({error})") from error
        elif line.strip() and kind in (".jsonl", ".ndjson", ".json"):
            raise FileError(f"{where}: needs a JSON object with 'question': {line.strip():.60}")
        elif line.strip():
            yield where, {"question": line}


def _table_rows(path: Path, text: str, delimiter: str | None) -> Iterator[tuple[str, Any]]:
    delimiter = delimiter or max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    if "question" not in (str(name).strip().lower() for name in rows.fieldnames or ()):
        raise FileError(
            f"{path}, line 1: needs a column 'question', and optionally 'gold', 'evidence', 'type' and 'id'"
        )
    try:
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            if None in row:
                raise FileError(f"{where}: has more cells than the header: put cells with {delimiter!r} in quotes")
            cells: dict[str, Any] = {str(name).strip().lower(): (value or "").strip() for name, value in row.items()}
            for name in {"gold", "evidence"} & cells.keys():
                cells[name] = [part.strip() for part in cells[name].split("|") if part.strip()]
            if any(cells.values()):
                yield where, cells
    except csv.Error as error:
        raise FileError(f"{path}, line {rows.line_num}: invalid CSV ({error})") from error


def _question(row: Any, where: str) -> Question:
    text = row.get("question") if isinstance(row, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise FileError(
            f"{where}: needs 'question' (a string) and optionally 'gold' (a list of document ids) or 'evidence' "
            "(a list of quotes)"
        )
    gold = [str(gold_id).strip() for gold_id in _listed(row, "gold", "document ids", where)]
    quotes = []
    for item in _listed(row, "evidence", "quotes", where):
        quote = item.get("quote") if isinstance(item, Mapping) else item
        if not isinstance(quote, str) or not WORD.search(quote):
            raise FileError(f"{where}: 'evidence' has {quote!r:.60}, which has no words")
        quotes.append(quote)
    others = {name: str(row[name]) for name in ("type", "id") if row.get(name) is not None}
    return Question(text.strip(), tuple(dict.fromkeys(gold)), tuple(dict.fromkeys(quotes)), **others)


def _listed(row: Mapping[str, Any], name: str, what: str, where: str) -> list[Any]:
    value = row.get(name) or []
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise FileError(f"{where}: '{name}' must be a list of {what}, not {type(value).__name__}")
    return list(value)


# -- what counts as found


def contains(quote: str, passage: str) -> bool:
    r"""Return whether a passage contains a quote.

    White space, case, punctuation and markup (HTML tags, reStructuredText roles, link targets) do not count. At least
    three quarters of the quote's adjacent word pairs must occur in the passage. A reference that is longer than the
    passage, such as a text of another chunker, is found if three quarters of the passage's word pairs occur in it.

    >>> contains("use the :signal:`before_task_publish` signal", "Use the\n before_task_publish  signal instead.")
    True
    >>> contains("Full path to the worker log file", "The path of a log file of the worker.")
    False
    """
    return _holds(_pairs(quote), _pairs(passage))


def _holds(quote: frozenset[tuple[str, str]], passage: frozenset[tuple[str, str]]) -> bool:
    if len(quote) == 1 and (only := next(iter(quote)))[1] == "":  # a single word
        return any(only[0] in pair for pair in passage)
    common = len(quote & passage)
    if common >= _SHARE * len(quote):
        return True
    return len(quote) > len(passage) >= _LEAST_PAIRS and common >= _SHARE * len(passage)


def _words(text: str) -> list[str]:
    """Return the words of a text without its markup, in lower case."""
    plain = html.unescape(_MARKUP.sub(" ", " ".join(text.split())))
    return (CJK_WORD if has_cjk(plain) else WORD).findall(plain.lower())


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    words = _words(text)
    return frozenset(pairwise(words)) if len(words) > 1 else frozenset((word, "") for word in words)


@dataclass(frozen=True, slots=True)
class Gold:
    """What counts as the answer of a question in one index.

    ``items`` are the gold documents, chunks or quotes that the index has; ``missing`` are not in it and not measured.
    Ranks count passages if ``by_passage``, else documents: further passages of a document do not count. ``judge``
    returns the positions of the items that a passage has.
    """

    items: tuple[str, ...]
    missing: tuple[str, ...]
    by_passage: bool = False
    judge: Callable[[Chunk], tuple[int, ...]] = lambda _: ()

    def id_of(self, chunk: Chunk) -> str:
        """Return the id of what counts: the passage, or its document."""
        return chunk.id if self.by_passage else chunk.document_id


class GoldFinder:
    """Finds what counts as the answer of questions in an index.

    A gold id is a document's id, a chunk's id, or the end of a single document's id: ``d7`` for ``corpus.jsonl#d7``,
    and ``guide/install.md`` for ``docs/guide/install.md``. Quotes count if no gold id is in the index.
    """

    def __init__(self, index: KnowledgeIndex) -> None:
        self._index = index
        self._ends: dict[str, str | None] = {}

    def find(self, question: Question) -> Gold:
        """Return what counts as the answer of a question."""
        resolved = {gold: self._resolve(gold) for gold in question.gold}
        items = tuple(dict.fromkeys(found for found in resolved.values() if found is not None))
        if not items:
            return self._of_quotes(question.evidence) if question.evidence else Gold((), question.gold)
        missing = tuple(gold for gold, found in resolved.items() if found is None)

        def judge(chunk: Chunk) -> tuple[int, ...]:
            return tuple(at for at, item in enumerate(items) if item in (chunk.id, chunk.document_id))

        return Gold(items, missing, any(item not in self._index for item in items), judge)

    def _of_quotes(self, evidence: tuple[str, ...]) -> Gold:
        quotes = {quote: pairs for quote in evidence if self._has(quote, pairs := _pairs(quote))}

        def judge(chunk: Chunk) -> tuple[int, ...]:
            pairs = _pairs(chunk.text)
            return tuple(at for at, quote in enumerate(quotes.values()) if _holds(quote, pairs))

        return Gold(tuple(quotes), tuple(quote for quote in evidence if quote not in quotes), True, judge)

    def _resolve(self, gold: str) -> str | None:
        if gold in self._index:
            return gold
        document, sign, _ = gold.rpartition("#")
        if sign and any(chunk.id == gold for chunk in self._index.chunks(document)):
            return gold
        if not self._ends:
            for document_id in self._index.document_ids():
                parts = document_id.split("/")
                ends = ("/".join(parts[start:]) for start in range(1, len(parts)))
                for end in {document_id.rpartition("#")[2], *ends}:
                    self._ends[end] = None if end in self._ends else document_id  # an ambiguous end is not an id
        return self._ends.get(gold)

    def _has(self, quote: str, pairs: frozenset[tuple[str, str]]) -> bool:
        """Return whether a passage of the index contains a quote: keyword search for its words finds candidates."""
        with self._index.engine.snapshot() as snapshot:
            keys, _ = snapshot.keywords(" ".join(_words(quote)[:60]), _SEARCHED)
            return any(_holds(pairs, _pairs(chunk.text)) for chunk in snapshot.chunks(keys))
