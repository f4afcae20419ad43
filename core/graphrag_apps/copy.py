"""Copy an index from one place to another: folders and PostgreSQL databases, in either direction.

Nothing is extracted or embedded again: documents are read as they were written, with their vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from graphrag_core.engine.address import is_address, shown
from graphrag_core.errors import InputError, NotAnIndex, StorageError
from graphrag_core.index import KnowledgeIndex, open_engine
from graphrag_core.text import fingerprint

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine

_UNFINISHED = "copied_from"  # the setting of a target that is not complete yet: what it is a copy of
_EDITS = "edits"
_PASSES = 5  # over a source that other processes change meanwhile


def copy_index(source: str | Path, target: str | Path, *, batch_size: int = 250) -> dict[str, int]:
    """Copy an index with its settings, edits, remembered facts and the files that it was read from; return its counts.

    Documents are copied in batches; a few are in memory at a time. If the call is interrupted, the same call continues:
    documents that the target has are not read again. Documents that are written to the source meanwhile are copied too.

    Parameters
    ----------
    source, target
        Folders, or addresses of databases (``postgresql://user@host/database?index=NAME``).
    batch_size
        The number of documents in a transaction.

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
    place, other = (str(one) if is_address(one) else str(Path(one).resolve()) for one in (source, target))
    if place == other:
        raise InputError(f"{shown(source)} cannot be copied to itself: choose another target")
    with closing(open_engine(source, read_only=True)) as old, closing(open_engine(target, read_only=False)) as new:
        _begin(old, new, fingerprint([shown(place)]), shown(target))
        for _ in range(_PASSES):
            generation = old.generation
            _copy_documents(old, new, batch_size)
            _delete_others(old, new, 10 * batch_size)
            _copy_settings(old, new)
            new.flush()
            old.refresh()
            if old.generation == generation:
                break
        else:
            advice = "stop what writes to it, and run the same copy again, which continues"
            raise StorageError(f"{shown(source)} changes faster than it can be copied: {advice}")
        counts, copied = _counts(old), _counts(new)
        if counts != copied:
            kinds = [kind for kind in {**counts, **copied} if copied.get(kind) != counts.get(kind)]
            wrong = ", ".join(f"{copied.get(kind, 0):,} {kind} instead of {counts.get(kind, 0):,}" for kind in kinds)
            advice = "run the same copy again; if they stay different, run `hybrid-graphrag verify` for both"
            raise StorageError(f"the copy in {shown(target)} has {wrong}: {advice}")
        new.write(settings={_UNFINISHED: ""})
        new.flush()
        return counts


def _begin(old: IndexEngine, new: IndexEngine, mark: str, target: str) -> None:
    """Check that the target is empty, or a copy of this source that was interrupted; mark it as one."""
    settings = new.settings()
    if settings.get(_UNFINISHED) == mark:
        return
    if settings.get(_UNFINISHED):
        advice = "continue that copy, or choose another target"
        raise InputError(f"{target} is an unfinished copy of another index: {advice}")
    if len(new) or any(settings.values()):
        raise InputError(f"{target} is not empty: copy into a new folder, or another index=... name")
    # Edits are applied when all documents are there.
    copied = {name: value for name, value in old.settings().items() if name != _EDITS}
    new.write(settings={**copied, _UNFINISHED: mark})


def _copy_settings(old: IndexEngine, new: IndexEngine) -> None:
    present = new.settings()
    wanted = {_EDITS: "", **old.settings(), _UNFINISHED: present[_UNFINISHED]}
    if changed := {name: value for name, value in wanted.items() if present.get(name, "") != value}:
        new.write(settings=changed)


def _copy_documents(old: IndexEngine, new: IndexEngine, batch_size: int) -> None:
    """Write the documents that are missing from the target or differ there."""
    for ids in _batches(old.document_ids(), batch_size):
        digests, present = old.stored(ids), new.stored(ids)
        if needed := [key for key in ids if key in digests and present.get(key) != digests[key]]:
            documents = old.parsed(needed, accesses=True)
            names = dict.fromkeys(name for document in documents for row in document.names for name in row)
            vectors = old.name_vectors(new.new_names(names))
            if removed := [key for key in needed if key in present]:
                new.write(removed=removed)  # apart, so that the access counts of facts are the source's
            new.write(documents, name_vectors=vectors)


def _delete_others(old: IndexEngine, new: IndexEngine, batch_size: int) -> None:
    """Delete documents that are no longer in the source."""
    for ids in _batches(list(new.document_ids()), batch_size):
        kept = old.stored(ids)
        if gone := [key for key in ids if key not in kept]:
            new.write(removed=gone)


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
