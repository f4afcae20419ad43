"""One call of ``add``: its batches are checked, compared with what is there, read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphrag_core.errors import DocumentError
from graphrag_core.intake import Intake, Read, check
from graphrag_core.line import Line
from graphrag_core.model import Document
from graphrag_core.report import Added
from graphrag_core.stores.records import Records

Given = Mapping[str, Sequence[float]] | None
"""Vectors of documents by id, where they are known."""


@dataclass(frozen=True)
class Addition:
    """Takes in the batches of one call.

    Whole batches that only add go on the line, to be written while the next is read; the
    first of an index and one that replaces something are handed to ``write_alone``, with
    the keys of the documents that go.
    """

    records: Records
    intake: Intake
    line: Line
    began: int  # the generation before the call
    batch_size: int
    given: Given
    write_alone: Callable[[list[Read], list[int], Given], None]

    def take(self, batch: list[Document]) -> Added:
        """Take in a batch, all of it or nothing, if only by the end of the call; return what becomes of it."""
        known = self._known(batch)
        changed, replaced = self.intake.changed(batch, known)
        read = self.intake.read(changed) if changed else []
        if read:
            self._write(read, replaced)
        problems = {r.document.id: r.problem for r in read if r.problem}
        return Added(len(changed) - len(replaced), len(replaced), len(batch) - len(changed), problems)

    def _known(self, batch: list[Document]) -> dict[str, tuple[int, str, int]]:
        """Return what is there of a batch's documents, none of which may come twice in the call."""
        ids = set()
        for document in batch:
            check(document)
            if document.id in ids:
                raise DocumentError(
                    document.id, "this id comes twice in one call: keep one, or give them ids of their own"
                )
            ids.add(document.id)
        known = self.records.known(sorted(ids))
        for document_id in ids:
            if self.line.holds(document_id) or known.get(document_id, (0, "", 0))[2] > self.began:
                raise DocumentError(document_id, "this id came before in the same call: keep one of the two")
        return known

    def _write(self, read: list[Read], replaced: list[int]) -> None:
        if replaced or self.intake.embedding is None or self.intake.embedding.dim is None:
            self.line.finish()
            self.write_alone(read, replaced, self.given)
            return
        entries = self.intake.embed(read, {}, self.given)
        self.line.arrive()
        names = self.intake.name_vectors(read, self.records)
        (self.line.put if len(read) == self.batch_size else self.line.put_last)(entries, names)
