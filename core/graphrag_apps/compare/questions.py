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
from typing import Any, NamedTuple

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

    ``gold`` are the ids of documents or chunks, ``evidence`` quotes from passages where ids are not known: a passage
    counts if it contains the quote (:func:`contains`). ``type`` is a kind of question, such as "bridge": reports show
    each kind by itself. ``id`` is for the reader of a report.
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
    """Read questions from a file, or an iterable of :class:`Question` or of mappings.

    A text file has one question in each line. JSON Lines, CSV and TSV have ``question``, and optionally ``gold``
    (document ids), ``evidence`` (quotes, or objects with ``quote``), ``type`` and ``id``; several ids or quotes in a
    cell are separated by ``|``. ``FileError`` names the file and the line that cannot be read.
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
        raise FileError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if path.suffix.lower() in (".csv", ".tsv"):
        yield from _table_rows(path, text)
        return
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}, line {number}"
        if line.lstrip().startswith("{"):
            try:
                yield where, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileError(f"{where}: invalid JSON ({error})") from error
        elif line.strip() and path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
            raise FileError(f"{where}: needs a JSON object with 'question': {line.strip():.60}")
        elif line.strip():
            yield where, {"question": line}


def _table_rows(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    delimiter = max("\t,;", key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
    if "question" not in rows.fieldnames:
        raise FileError(
            f"{path}, line 1: needs a column 'question', and optionally 'gold', 'evidence', 'type' and 'id'"
        )
    try:
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            if None in row:
                raise FileError(f"{where}: has more cells than the header: put cells with {delimiter!r} in quotes")
            cells: dict[str, Any] = {name: (value or "").strip() for name, value in row.items()}
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
    gold = [str(item).strip() for item in _items(row, "gold", "document ids", where)]
    quotes: list[Any] = [
        item.get("quote") if isinstance(item, Mapping) else item for item in _items(row, "evidence", "quotes", where)
    ]
    for quote in quotes:
        if not isinstance(quote, str) or not WORD.search(quote):
            raise FileError(f"{where}: 'evidence' has {quote!r:.60}, which has no words")
    others = {name: str(row[name]) for name in ("type", "id") if row.get(name) is not None}
    return Question(text.strip(), tuple(dict.fromkeys(gold)), tuple(dict.fromkeys(quotes)), **others)


def _items(row: Mapping[str, Any], name: str, what: str, where: str) -> list[Any]:
    value = row.get(name) or []
    if isinstance(value, (str, int)):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise FileError(f"{where}: '{name}' must be a list of {what}, not {type(value).__name__}")
    return list(value)


# -- what counts as found


def contains(quote: str, passage: str) -> bool:
    r"""Return whether a passage contains a quote.

    At least three quarters of the quote's adjacent word pairs must occur in the passage, without markup, case and
    punctuation. A quote that is longer than the passage is found if three quarters of the passage's pairs occur in it.

    >>> contains("use the :signal:`before_task_publish` signal", "Use the\n before_task_publish  signal instead.")
    True
    >>> contains("Full path to the worker log file", "The path of a log file of the worker.")
    False
    """
    return _has_pairs(_pairs(quote), _pairs(passage))


def _has_pairs(quote: frozenset[tuple[str, str]], passage: frozenset[tuple[str, str]]) -> bool:
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


class Gold(NamedTuple):
    """What counts as the answer of a question in one index: the gold documents, chunks or quotes that it has.

    Ranks count passages if ``by_passage``, else documents. ``judge`` returns the positions of a passage's items.
    """

    items: tuple[str, ...]
    missing: tuple[str, ...]
    by_passage: bool
    judge: Callable[[Chunk], tuple[int, ...]]


def find_gold(index: KnowledgeIndex, question: Question) -> Gold:
    """Return what counts as the answer of a question: its gold ids, or its quotes if no gold id is in the index.

    A gold id is a document's id, a chunk's id, or the end of a single document's id: ``d7`` for ``corpus.jsonl#d7``,
    and ``guide/install.md`` for ``docs/guide/install.md``.
    """
    ids = {gold: _resolve(index, gold) for gold in question.gold}
    items = tuple(dict.fromkeys(filter(None, ids.values())))
    if items or not question.evidence:
        missing = tuple(gold for gold, found in ids.items() if found is None)
        by_passage = any(item not in index for item in items)

        def judge_id(chunk: Chunk) -> tuple[int, ...]:
            return tuple(at for at, item in enumerate(items) if item in (chunk.id, chunk.document_id))

        return Gold(items, missing, by_passage, judge_id)
    quotes = {quote: pairs for quote in question.evidence if _has_quote(index, quote, pairs := _pairs(quote))}

    def judge(chunk: Chunk) -> tuple[int, ...]:
        passage = _pairs(chunk.text)
        return tuple(position for position, pairs in enumerate(quotes.values()) if _has_pairs(pairs, passage))

    return Gold(tuple(quotes), tuple(quote for quote in question.evidence if quote not in quotes), True, judge)


def _resolve(index: KnowledgeIndex, gold: str) -> str | None:
    """Return the id of the document or chunk that a gold id means; None if there is none, or more than one."""
    document = gold.rpartition("#")[0]
    if gold in index or (document and any(chunk.id == gold for chunk in index.chunks(document))):
        return gold
    found = [one for one in index.document_ids() if one.endswith((f"/{gold}", f"#{gold}"))]
    return found[0] if len(found) == 1 else None


def _has_quote(index: KnowledgeIndex, quote: str, pairs: frozenset[tuple[str, str]]) -> bool:
    """Return whether a passage of the index contains a quote: keyword search for its words finds candidates."""
    with index.engine.snapshot() as snapshot:
        keys, _ = snapshot.keywords(" ".join(_words(quote)[:60]), _SEARCHED)
        return any(_has_pairs(pairs, _pairs(chunk.text)) for chunk in snapshot.chunks(keys))
