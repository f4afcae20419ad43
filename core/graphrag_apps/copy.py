"""Copy an index from one place to another: folders and PostgreSQL databases, in either direction.

Nothing is extracted or embedded again: documents are read as they were written, with their vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import InputError, NotAnIndex, StorageError
from graphrag_core.index import KnowledgeIndex, open_engine
from graphrag_core.text import fingerprint

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine

_UNFINISHED = "copied_from"  # the setting of a target that is not complete yet: what it is a copy of
_EDITS = "edits"
_PASSES = 5  # over a source that other processes change meanwhile


@dataclass(frozen=True)
class Copied:
    """What :func:`copy_index` did.

    ``counts`` are equal in source and target. ``written`` are the documents that this call wrote: all
    of them, unless it continued a copy that was interrupted.
    """

    counts: Mapping[str, int]
    written: int


def copy_index(
    source: str | Path, target: str | Path, *, batch_size: int = 250, progress: bool | None = None
) -> Copied:
    """Copy an index with its settings, edits, remembered facts and the files that it was read from.

    Documents are copied in batches; a few are in memory at a time. If the call is interrupted, the same call continues:
    documents that the target has are not read again. Documents that are written to the source meanwhile are copied too.

    Parameters
    ----------
    source, target
        Folders, or addresses of databases (``postgresql://user@host/database?index=NAME``).
    batch_size
        The number of documents in a transaction.
    progress
        True or False to force a progress bar; None shows it on a terminal.

    Raises
    ------
    InputError
        The target is not empty, and no unfinished copy of the source.
    NotAnIndex
        There is no index in the source.
    StorageError
        Source and target differ at the end.
    """
    if not KnowledgeIndex.exists(source):
        raise NotAnIndex(f"there is no index in {shown(source)} to copy")
    if _is_same(source, target):
        raise InputError(f"{shown(source)} cannot be copied to itself: choose another target")
    disable = None if progress is None else not progress
    with closing(open_engine(source, read_only=True)) as old, closing(open_engine(target, read_only=False)) as new:
        return _Copy(old, new, str(source), str(target), batch_size, disable).run()


def _is_same(source: str | Path, target: str | Path) -> bool:
    if is_address(source) or is_address(target):
        return str(source) == str(target)
    return Path(source).resolve() == Path(target).resolve()


@dataclass
class _Copy:
    old: IndexEngine
    new: IndexEngine
    source: str
    target: str
    batch_size: int
    disable: bool | None  # the progress bar
    written: int = 0

    def run(self) -> Copied:
        self._begin()
        for _ in range(_PASSES):
            generation = self.old.generation
            self._copy_documents()
            self._delete_others()
            self._copy_settings()
            self.new.flush()
            self.old.refresh()
            if self.old.generation == generation:
                break
        else:
            advice = "stop what writes to it, and run the same copy again, which continues"
            raise StorageError(f"{shown(self.source)} changes faster than it can be copied: {advice}")
        counts, others = _counts(self.old), _counts(self.new)
        if counts != others:
            kinds = [kind for kind in {**counts, **others} if others.get(kind) != counts.get(kind)]
            wrong = ", ".join(f"{others.get(kind, 0):,} {kind} instead of {counts.get(kind, 0):,}" for kind in kinds)
            advice = "run the same copy again; if they stay different, run `hybrid-graphrag verify` for both"
            raise StorageError(f"the copy in {shown(self.target)} has {wrong}: {advice}")
        self.new.write(settings={_UNFINISHED: ""})
        self.new.flush()
        return Copied(counts, self.written)

    def _begin(self) -> None:
        """Check that the target is empty, or a copy of this source that was interrupted; mark it as one."""
        place = shown(self.source) if is_address(self.source) else str(Path(self.source).resolve())
        mark, settings = fingerprint([place]), self.new.settings()
        if settings.get(_UNFINISHED) == mark:
            return
        if settings.get(_UNFINISHED):
            advice = "continue that copy, or choose another target"
            raise InputError(f"{shown(self.target)} is an unfinished copy of another index: {advice}")
        if len(self.new) or any(settings.values()):
            raise InputError(f"{shown(self.target)} is not empty: copy into a new folder, or another index=... name")
        # Edits are applied when all documents are there.
        copied = {name: value for name, value in self.old.settings().items() if name != _EDITS}
        self.new.write(settings={**copied, _UNFINISHED: mark})

    def _copy_settings(self) -> None:
        present = self.new.settings()
        wanted = {**self.old.settings(), _UNFINISHED: present[_UNFINISHED]}
        wanted.setdefault(_EDITS, "")
        if changed := {name: value for name, value in wanted.items() if present.get(name, "") != value}:
            self.new.write(settings=changed)

    def _copy_documents(self) -> None:
        with tqdm(total=len(self.old), desc="copying", unit=" documents", disable=self.disable, leave=False,
                  dynamic_ncols=True) as bar:  # fmt: skip
            for ids in _batches(self.old.document_ids(), self.batch_size):
                digests, present = self.old.stored(ids), self.new.stored(ids)
                if needed := [key for key in ids if key in digests and present.get(key) != digests[key]]:
                    documents = self.old.parsed(needed, accesses=True)
                    names = dict.fromkeys(name for document in documents for row in document.names for name in row)
                    vectors = self.old.name_vectors(self.new.new_names(names))
                    if removed := [key for key in needed if key in present]:
                        self.new.write(removed=removed)  # apart, so that the access counts of facts are the source's
                    self.new.write(documents, name_vectors=vectors)
                    self.written += len(needed)
                bar.update(len(ids))

    def _delete_others(self) -> None:
        """Delete documents that are no longer in the source."""
        for ids in _batches(list(self.new.document_ids()), 10 * self.batch_size):
            kept = self.old.stored(ids)
            if gone := [key for key in ids if key not in kept]:
                self.new.write(removed=gone)


def _batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    following = iter(ids)
    while batch := list(islice(following, size)):
        yield batch


def _counts(engine: IndexEngine) -> dict[str, int]:
    """Return the counts that an index and its copy share."""
    stats = engine.stats()
    counts = {name: getattr(stats, name) for name in ("documents", "chunks", "entities", "facts")}
    vectors = {f"vectors of {kind}": count for kind, count in stats.vectors.items() if kind != "facts"}
    return {**counts, "relation types": len(stats.relations), **vectors}
