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

from graphrag_apps.compare.measures import Judgement
from graphrag_core.errors import FileError, InputError
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk
from graphrag_core.text import has_cjk
from graphrag_core.text.words import CJK_WORD, WORD

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ROLE = re.compile(r":[\w+.-]+(?::[\w+.-]+)*:(?=`)|\{[\w:.-]+\}(?=`)")
_TARGET = re.compile(r"\s*<[^<>]*>(?=`)|\]\([^()]*\)")
_SHARE = 0.75  # of a quote's word pairs that a passage must have
_LEAST_PAIRS = 12  # a passage with fewer is too short to be recognised as a part of a longer reference
_SEARCHED = 30  # passages that are searched for a quote, to tell whether the index has it


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
    id, answer
        For the reader of a report.
    grades
        The relevance of each gold document, for nDCG; 1 by default.
    """

    text: str
    gold: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    type: str = ""
    id: str = ""
    answer: str = ""
    grades: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a row of a JSON Lines file that :func:`load_questions` reads."""
        row = {("question" if name == "text" else name): value for name, value in asdict(self).items()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items() if value}


# -- files and datasets


def load_questions(source: Any) -> list[Question]:
    """Read questions from a file or a list.

    Parameters
    ----------
    source
        - a text file with one question in each line;
        - JSON Lines, or a JSON list, with ``question``, and optionally ``gold`` (document ids), ``evidence`` (quotes,
          or objects with ``quote``), ``type``, ``id`` and ``answer``;
        - CSV or TSV with columns of these names; several ids or quotes in a cell are separated by ``|`` or are a JSON
          list;
        - an iterable of :class:`Question` or of mappings.

    Raises
    ------
    FileError
        A file cannot be read; the message has its name and the line.
    """
    where = str(source) if isinstance(source, (str, Path)) else f"the {type(source).__name__}"
    rows = _rows(source, where)
    questions = [row if isinstance(row, Question) else _question(row, place) for place, row in rows]
    if not questions:
        raise FileError(f"{where}: contains no questions")
    return questions


def _rows(source: Any, where: str) -> Iterable[tuple[str, Any]]:
    """Return the questions of a source: where each is, and a mapping, or a :class:`Question`."""
    if isinstance(source, (str, Path)):
        return _path_rows(Path(source))
    if isinstance(source, Iterable):
        return ((f"{where}, item {number}", row) for number, row in enumerate(source, 1))
    raise InputError(f"{source!r:.80} has no questions: give a path or a list of Question")


def _path_rows(path: Path) -> Iterable[tuple[str, Any]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        return _table_rows(path, "\t" if kind == ".tsv" else None)
    if kind != ".json":
        return _line_rows(path, is_json=kind in (".jsonl", ".ndjson"))
    value = _json(_read(path), str(path))
    if not isinstance(value, list):
        raise FileError(f"{path}: needs a list of objects with 'question'")
    return _rows(value, str(path))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"{path}: cannot be read ({reason})") from error


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where}: invalid JSON ({error})") from error


def _line_rows(path: Path, *, is_json: bool) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_read(path).split("\n"), 1):
        where = f"{path}, line {number}"
        if line.lstrip().startswith("{"):
            yield where, _json(line, where)
        elif line.strip() and is_json:
            raise FileError(f"{where}: needs a JSON object with 'question': {line.strip():.60}")
        elif line.strip():
            yield where, {"question": line}


def _table_rows(path: Path, delimiter: str | None) -> Iterator[tuple[str, Any]]:
    text = _read(path)
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
            cells = {str(name).strip().lower(): (value or "").strip() for name, value in row.items()}
            if any(cells.values()):
                yield where, cells | {key: _cell(cells[key], where) for key in ("gold", "evidence") if key in cells}
    except csv.Error as error:
        raise FileError(f"{path}, line {rows.line_num}: invalid CSV ({error})") from error


def _cell(value: str, where: str) -> list[Any]:
    if value.startswith("["):
        parsed = _json(value, where)
        return parsed if isinstance(parsed, list) else [parsed]
    return [part.strip() for part in value.split("|") if part.strip()]


def _question(row: Any, where: str) -> Question:
    if not isinstance(row, Mapping):
        raise FileError(f"{where}: needs an object with 'question', not {type(row).__name__}")
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise FileError(
            f"{where}: needs 'question' (a string) and optionally 'gold' (a list of document ids) or 'evidence' "
            "(a list of quotes)"
        )
    ids, grades = _gold(row, where)
    others = {name: str(row[name]) for name in ("type", "id", "answer") if row.get(name) is not None}
    return Question(text.strip(), ids, _quotes(row, where), grades=grades, **others)


def _gold(row: Mapping[str, Any], where: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the gold ids of a row, and their grades: none if an id is repeated."""
    gold: Any = row.get("gold") or []
    numbers = row.get("grades") or ()
    if isinstance(gold, Mapping):
        gold, numbers = list(gold), list(gold.values())
    gold = _listed(gold, "gold", "document ids", where)
    grades = tuple(_grade(value, where) for value in numbers)
    if grades and len(grades) != len(gold):
        raise FileError(f"{where}: 'grades' has {len(grades)} numbers for {len(gold)} gold documents")
    ids = tuple(dict.fromkeys(str(gold_id).strip() for gold_id in gold))
    return ids, grades if len(grades) == len(ids) else ()


def _quotes(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    quotes: dict[str, None] = {}
    for item in _listed(row.get("evidence") or [], "evidence", "quotes", where):
        quote = item.get("quote") if isinstance(item, Mapping) else item
        if not isinstance(quote, str) or not WORD.search(quote):
            raise FileError(f"{where}: 'evidence' has {quote!r:.60}, which has no words")
        quotes[quote] = None
    return tuple(quotes)


def _grade(value: Any, where: str) -> float:
    try:
        grade = float(value)
    except (TypeError, ValueError):
        grade = 0.0
    if not 0 < grade < float("inf"):
        raise FileError(f"{where}: a grade of a gold document is {value!r}: use a positive number")
    return grade


def _listed(value: Any, name: str, what: str, where: str) -> list[Any]:
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
    plain = html.unescape(_TAG.sub(" ", _TARGET.sub(" ", _ROLE.sub("", " ".join(text.split())))))
    return (CJK_WORD if has_cjk(plain) else WORD).findall(plain.lower())


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    words = _words(text)
    return frozenset(pairwise(words)) if len(words) > 1 else frozenset((word, "") for word in words)


@dataclass(frozen=True, slots=True)
class Gold:
    """What counts as the answer of a question in one index.

    ``items`` are the gold documents, chunks or quotes that the index has, ``grades`` their relevance. ``missing`` are
    not in the index and not measured. Ranks count passages if ``by_passage``, else documents: further passages of a
    document do not count. ``judge`` returns the positions of the items that a passage has.
    """

    items: tuple[str, ...]
    missing: tuple[str, ...]
    grades: tuple[float, ...] = ()
    by_passage: bool = False
    judge: Callable[[Chunk], tuple[int, ...]] = lambda _: ()

    def id_of(self, chunk: Chunk) -> str:
        """Return the id of what counts: the passage, or its document."""
        return chunk.id if self.by_passage else chunk.document_id

    def rank(self, chunks: Iterable[Chunk], depth: int) -> list[Chunk]:
        """Return the first ``depth`` results: passages, or the best passage of each document."""
        unique: dict[str, Chunk] = {}
        for chunk in chunks:
            unique.setdefault(self.id_of(chunk), chunk)
        return list(unique.values())[:depth]

    def judgement(self, ranked: Iterable[Chunk]) -> Judgement:
        """Return what measures need of ranked results."""
        return Judgement(tuple(map(self.judge, ranked)), self.grades)


class GoldFinder:
    """Finds what counts as the answer of questions in an index.

    A gold id is a document's id, a chunk's id, or the end of a single document's id: ``d7`` for ``corpus.jsonl#d7``,
    and ``guide/install.md`` for ``docs/guide/install.md``. Quotes count if no gold id is in the index.
    """

    def __init__(self, index: KnowledgeIndex) -> None:
        self._index = index
        self._ends: dict[str, str | None] | None = None

    def find(self, question: Question) -> Gold:
        """Return what counts as the answer of a question."""
        resolved = {gold: self._resolve(gold) for gold in question.gold}
        if any(resolved.values()):
            return self._gold_ids(question, resolved)
        return self._gold_quotes(question.evidence) if question.evidence else Gold((), question.gold)

    def _gold_ids(self, question: Question, resolved: Mapping[str, str | None]) -> Gold:
        grades = question.grades or (1.0,) * len(question.gold)
        pairs = zip(question.gold, grades, strict=True)
        weights = {document: grade for gold, grade in pairs if (document := resolved[gold])}
        missing = tuple(gold for gold, document in resolved.items() if document is None)
        positions = {item: position for position, item in enumerate(weights)}

        def judge(chunk: Chunk) -> tuple[int, ...]:
            return tuple(sorted({positions[key] for key in (chunk.id, chunk.document_id) if key in positions}))

        by_passage = any(item not in self._index for item in weights)
        return Gold(tuple(weights), missing, tuple(weights.values()), by_passage, judge)

    def _gold_quotes(self, evidence: tuple[str, ...]) -> Gold:
        quotes = tuple(quote for quote in dict.fromkeys(evidence) if self._has(quote))
        missing = tuple(quote for quote in dict.fromkeys(evidence) if quote not in quotes)
        needed = [_pairs(quote) for quote in quotes]

        def judge(chunk: Chunk) -> tuple[int, ...]:
            pairs = _pairs(chunk.text)
            return tuple(position for position, quote in enumerate(needed) if _holds(quote, pairs))

        return Gold(quotes, missing, (1.0,) * len(quotes), True, judge)

    def _resolve(self, gold: str) -> str | None:
        if gold in self._index:
            return gold
        document, sign, _ = gold.rpartition("#")
        if sign and any(chunk.id == gold for chunk in self._index.chunks(document)):
            return gold
        if self._ends is None:
            self._ends = {}
            for document_id in self._index.document_ids():
                parts = document_id.split("/")
                ends = ("/".join(parts[start:]) for start in range(1, len(parts)))
                for end in {document_id.rpartition("#")[2], *ends}:
                    self._ends[end] = None if end in self._ends else document_id  # an ambiguous end is not an id
        return self._ends.get(gold)

    def _has(self, quote: str) -> bool:
        """Return whether a passage of the index contains a quote: keyword search for its words finds candidates."""
        words, needed = _words(quote), _pairs(quote)
        phrases = [" ".join(words[start : start + 4]) for start in range(0, min(len(words), 60), 3)]
        queries = (" ".join(f'"{phrase}"' for phrase in phrases), " ".join(words[:60]))
        with self._index.engine.snapshot() as snapshot:
            for query, count in zip(queries, (_SEARCHED, 10 * _SEARCHED), strict=True):
                keys, _ = snapshot.keywords(query, count)
                if any(_holds(needed, _pairs(chunk.text)) for chunk in snapshot.chunks(keys[: 2 * count])):
                    return True
        return False
