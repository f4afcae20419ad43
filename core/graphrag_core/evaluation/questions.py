"""Questions for an evaluation, from files and datasets, and what counts as their answer in an index."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from graphrag_core.errors import FileError, InputError
from graphrag_core.evaluation.measures import Judgement
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk
from graphrag_core.text import CJK, has_cjk

_SPLITS = ("test", "dev", "train")  # of a BEIR folder, the first that there is

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ROLE = re.compile(r":[\w+.-]+(?::[\w+.-]+)*:(?=`)|\{[\w:.-]+\}(?=`)")
_TARGET = re.compile(r"\s*<[^<>]*>(?=`)|\]\([^()]*\)")
_WORD = re.compile(r"[^\W_]+")
_CJK_WORD = re.compile(rf"[{CJK}]|(?:(?![{CJK}])[^\W_])+")  # a Chinese or Japanese character is a word
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


def load_questions(source: Any, *, split: str | None = None) -> list[Question]:
    """Read questions from a file, a folder or a dataset.

    Parameters
    ----------
    source
        - a text file with one question in each line;
        - JSON Lines, or a JSON list, with ``question``, and optionally ``gold`` (document ids), ``evidence`` (quotes,
          or objects with ``quote``), ``type``, ``id`` and ``answer``;
        - CSV or TSV with columns of these names; several ids or quotes in a cell are separated by ``|`` or are a JSON
          list;
        - a BEIR folder: ``queries.jsonl`` and ``qrels/SPLIT.tsv``;
        - a folder with ``questions.jsonl``;
        - the JSON file of a LlamaIndex ``LabelledRagDataset`` or ``EmbeddingQAFinetuneDataset``, or such an object;
        - an iterable of :class:`Question` or of mappings.
    split
        Which file of ``qrels`` to read. By default test, dev or train, the first that there is.

    Raises
    ------
    FileError
        A file cannot be read; the message has its name and the line.
    """
    if isinstance(source, (str, Path)):
        return _from_path(Path(source), split)
    if hasattr(source, "examples") or (hasattr(source, "queries") and hasattr(source, "relevant_docs")):
        return _from_dataset(source, type(source).__name__)
    if not isinstance(source, Iterable):
        raise InputError(f"{source!r:.80} has no questions: give a path, a LlamaIndex dataset or a list of Question")
    questions = [
        one if isinstance(one, Question) else _from_row(one, f"question {number}")
        for number, one in enumerate(source, 1)
    ]
    return _checked(questions, "the list")


def _from_path(path: Path, split: str | None) -> list[Question]:
    if path.is_dir():
        if (path / "queries.jsonl").is_file():
            return _checked(_from_beir(path, split), str(path))
        if (path / "questions.jsonl").is_file():
            return _from_path(path / "questions.jsonl", split)
        raise FileError(f"{path}: has neither queries.jsonl and qrels (BEIR) nor questions.jsonl")
    if split is not None:
        raise InputError(f"{path} is no BEIR folder: it has no splits")
    text = _read(path)
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        questions = list(_from_table(path, text, "\t" if kind == ".tsv" else None))
    elif kind == ".json":
        questions = _from_json(path, text)
    else:
        questions = list(_from_lines(path, text))
    return _checked(questions, str(path))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"{path}: cannot be read ({reason})") from error


def _checked(questions: list[Question], where: str) -> list[Question]:
    if not questions:
        raise FileError(f"{where}: contains no questions")
    return questions


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where}: invalid JSON ({error})") from error


def _from_lines(path: Path, text: str) -> Iterator[Question]:
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        if line.lstrip().startswith("{"):
            yield _from_row(_json(line, where), where)
        elif path.suffix.lower() in (".jsonl", ".ndjson"):
            raise FileError(f"{where}: needs a JSON object with 'question': {line.strip():.60}")
        else:
            yield Question(line.strip())


def _from_table(path: Path, text: str, delimiter: str | None) -> Iterator[Question]:
    if delimiter is None:
        header = text.partition("\n")[0]
        delimiter = max(",;\t", key=header.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = {str(name).strip().lower() for name in rows.fieldnames or ()}
    if "question" not in names:
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
                listed = {name: _cell(cells[name], where) for name in ("gold", "evidence") if name in cells}
                yield _from_row({**cells, **listed}, where)
    except csv.Error as error:
        raise FileError(f"{path}, line {rows.line_num}: invalid CSV ({error})") from error


def _cell(value: str, where: str) -> list[Any]:
    if value.startswith("["):
        parsed = _json(value, where)
        return parsed if isinstance(parsed, list) else [parsed]
    return [part.strip() for part in value.split("|") if part.strip()]


def _from_json(path: Path, text: str) -> list[Question]:
    value = _json(text, str(path))
    if isinstance(value, Mapping) and ("examples" in value or "relevant_docs" in value):
        return _from_dataset(value, str(path))
    if not isinstance(value, list):
        raise FileError(f"{path}: needs a list of objects with 'question', or a LlamaIndex dataset")
    return [_from_row(row, f"{path}, item {number}") for number, row in enumerate(value, 1)]


def _from_beir(folder: Path, split: str | None) -> list[Question]:
    files = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    wanted = split if split is not None else next((name for name in (*_SPLITS, *files) if name in files), None)
    if wanted is None or wanted not in files:
        there = ", ".join(files) or "none"
        raise FileError(f"{folder / 'qrels'}: has no {wanted or 'test'}.tsv; splits that are there: {there}")
    path = files[wanted]
    grades = _qrels(path)
    questions = []
    queries = folder / "queries.jsonl"
    for number, line in enumerate(_read(queries).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{queries}, line {number}"
        row = _json(line, where)
        if isinstance(row, Mapping):
            row = {"id": row.get("_id"), "question": row.get("text")}
        question = _from_row(row, where)
        if gold := grades.pop(question.id, None):
            questions.append(replace(question, gold=tuple(gold), grades=tuple(gold.values())))
    if grades:
        raise FileError(f"{path}: query {next(iter(grades))} is not in {queries} (and {len(grades) - 1:,} more)")
    return questions


def _qrels(path: Path) -> dict[str, dict[str, float]]:
    """Read the grades of relevant documents by query."""
    grades: dict[str, dict[str, float]] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        try:
            query, document, grade = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError) as error:
            if number == 1:  # the header
                continue
            needs = "needs query-id, corpus-id and score, separated by tabs"
            raise FileError(f"{path}, line {number}: {needs}") from error
        if grade > 0:
            grades.setdefault(query, {})[document] = grade
    return grades


def _from_dataset(dataset: Any, where: str) -> list[Question]:
    """Read a ``LabelledRagDataset`` or an ``EmbeddingQAFinetuneDataset``, as an object or as JSON."""

    def part(value: Any, name: str) -> Any:
        return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)

    examples = part(dataset, "examples")
    if examples is not None:
        rows = [
            {
                "question": part(example, "query"),
                "evidence": part(example, "reference_contexts") or [],
                "answer": part(example, "reference_answer") or "",
            }
            for example in examples
        ]
        found = [_from_row(row, f"{where}, example {number}") for number, row in enumerate(rows, 1)]
        return _checked(found, where)
    queries, relevant = part(dataset, "queries"), part(dataset, "relevant_docs")
    corpus = part(dataset, "corpus") or {}
    if not isinstance(queries, Mapping) or not isinstance(relevant, Mapping):
        raise FileError(f"{where}: needs 'queries' and 'relevant_docs', objects by query id")
    return _checked(
        [
            _from_row(
                {
                    "id": query,
                    "question": text,
                    "gold": relevant.get(query, []),
                    # The ids are those of LlamaIndex nodes: another index of the same texts has other ids.
                    "evidence": [corpus[node] for node in relevant.get(query, []) if node in corpus],
                },
                f"{where}, query {query}",
            )
            for query, text in queries.items()
        ],
        where,
    )


def _from_row(row: Any, where: str) -> Question:
    if not isinstance(row, Mapping):
        raise FileError(f"{where}: needs an object with 'question', not {type(row).__name__}")
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise FileError(
            f"{where}: needs 'question' (a string) and optionally 'gold' (a list of document ids) or 'evidence' "
            "(a list of quotes)"
        )
    gold: Any = row.get("gold") or []
    grades: tuple[float, ...] = ()
    if isinstance(gold, Mapping):
        grades = tuple(_grade(value, where) for value in gold.values())
        gold = list(gold)
    elif row.get("grades"):
        grades = tuple(_grade(value, where) for value in row["grades"])
        if len(grades) != len(gold):
            raise FileError(f"{where}: 'grades' has {len(grades)} numbers for {len(gold)} gold documents")
    ids = tuple(dict.fromkeys(str(one).strip() for one in _listed(gold, "gold", "document ids", where)))
    quotes = [
        one.get("quote") if isinstance(one, Mapping) else one
        for one in _listed(row.get("evidence") or [], "evidence", "quotes", where)
    ]
    for quote in quotes:
        if not isinstance(quote, str) or not _WORD.search(quote):
            raise FileError(f"{where}: 'evidence' has {quote!r:.60}, which is no quote with words")
    kind, own, answer = ("" if row.get(name) is None else str(row[name]) for name in ("type", "id", "answer"))
    return Question(
        text.strip(),
        ids,
        tuple(dict.fromkeys(cast("list[str]", quotes))),
        type=kind,
        id=own,
        answer=answer,
        grades=grades if len(grades) == len(ids) else (),
    )


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
    return (_CJK_WORD if has_cjk(plain) else _WORD).findall(plain.lower())


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    words = _words(text)
    return frozenset(pairwise(words)) if len(words) > 1 else frozenset((word, "") for word in words)


@dataclass(frozen=True, slots=True)
class Gold:
    """What counts as the answer of a question in one index.

    Attributes
    ----------
    items
        The gold documents, chunks or quotes that the index has.
    missing
        Those that it does not have. They are no part of any measure.
    grades
        The relevance of each item.
    by_passage
        Whether ranks count passages. Otherwise they count documents: further passages of a document do not count.
    judge
        Returns the positions of the items that a passage has.
    """

    items: tuple[str, ...]
    missing: tuple[str, ...]
    grades: tuple[float, ...]
    by_passage: bool
    judge: Callable[[Chunk], tuple[int, ...]]

    def rank(self, chunks: Iterable[Chunk], depth: int) -> list[Chunk]:
        """Return the first ``depth`` results: passages, or the best passage of each document."""
        unique: dict[str, Chunk] = {}
        for chunk in chunks:
            unique.setdefault(chunk.id if self.by_passage else chunk.document_id, chunk)
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
        grades = question.grades or (1.0,) * len(question.gold)
        known = [(self._resolve(gold), grade) for gold, grade in zip(question.gold, grades, strict=True)]
        ids = dict.fromkeys(one for one, _ in known if one is not None)
        if ids:
            missing = tuple(gold for gold, (one, _) in zip(question.gold, known, strict=True) if one is None)
            weights = {one: grade for one, grade in known if one is not None}
            places = {one: place for place, one in enumerate(ids)}
            by_passage = any(one not in self._index for one in ids)

            def by_id(chunk: Chunk) -> tuple[int, ...]:
                found = {places.get(chunk.id), places.get(chunk.document_id)}
                return tuple(sorted(place for place in found if place is not None))

            return Gold(tuple(ids), missing, tuple(weights[one] for one in ids), by_passage, by_id)
        if question.evidence:
            there = [self._has(quote) for quote in question.evidence]
            quotes = tuple(quote for quote, has in zip(question.evidence, there, strict=True) if has)
            missing = tuple(quote for quote, has in zip(question.evidence, there, strict=True) if not has)
            needed = [_pairs(quote) for quote in quotes]

            def by_quote(chunk: Chunk) -> tuple[int, ...]:
                pairs = _pairs(chunk.text)
                return tuple(place for place, quote in enumerate(needed) if _holds(quote, pairs))

            return Gold(quotes, missing, (1.0,) * len(quotes), True, by_quote)
        return Gold((), question.gold, (), False, lambda _: ())

    def _resolve(self, gold: str) -> str | None:
        if gold in self._index:
            return gold
        document, sign, _ = gold.rpartition("#")
        if sign and any(chunk.id == gold for chunk in self._index.chunks(document)):
            return gold
        if self._ends is None:
            self._ends = {}
            for one in self._index.document_ids():
                for end in {one.rpartition("#")[2], *_path_ends(one)}:
                    self._ends[end] = None if end in self._ends else one  # several documents end so: none is meant
        return self._ends.get(gold)

    def _has(self, quote: str) -> bool:
        """Return whether a passage of the index contains a quote: keyword search for its words finds candidates."""
        words, needed = _words(quote), _pairs(quote)
        phrases = [" ".join(words[at : at + 4]) for at in range(0, min(len(words), 60), 3)]
        queries = (" ".join(f'"{phrase}"' for phrase in phrases), " ".join(words[:60]))
        with self._index.engine.snapshot() as snapshot:
            for query, count in zip(queries, (_SEARCHED, 10 * _SEARCHED), strict=True):
                keys, _ = snapshot.search_keywords("chunks", query, count)
                if any(_holds(needed, _pairs(chunk.text)) for chunk in snapshot.chunks(keys[: 2 * count])):
                    return True
        return False


def _path_ends(document_id: str) -> list[str]:
    parts = document_id.split("/")
    return ["/".join(parts[start:]) for start in range(1, len(parts))]
