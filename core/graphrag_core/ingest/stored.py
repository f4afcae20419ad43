"""Stored documents, written again with other edges or other extractions. No passage is embedded again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graphrag_core import extract as extractors
from graphrag_core.errors import ExtractionError, InputError, ReadOnlyIndex
from graphrag_core.ingest.chunker import with_marks
from graphrag_core.ingest.edges import SETTING as EDGES
from graphrag_core.ingest.edges import Edge, with_edges, without_edges
from graphrag_core.ingest.pipeline import MOST_BATCHES, Pipeline, problems
from graphrag_core.model import Added
from graphrag_core.ports import ParsedDocument
from graphrag_core.text import hash64

_UNFINISHED = "edges_unfinished"  # the setting of an index whose edges were being derived when its writer stopped
_OTHER_CHUNKS = "other chunks"  # the digest of a document that the chunker would cut in another way


def set_edges(pipeline: Pipeline, edges: Sequence[Edge] | None) -> None:
    """Store other edges, and derive those of all documents again; None keeps the stored ones.

    Each batch is one transaction. An interrupted run is done again by the next call.
    """
    engine, wanted = pipeline.engine, tuple(pipeline.edges if edges is None else edges)
    settings = engine.settings()
    is_unfinished = bool(settings.get(_UNFINISHED)) and not engine.read_only
    if set(wanted) == set(pipeline.edges) and not is_unfinished:
        return
    if engine.read_only and not settings.get("embedder"):  # nothing was added yet
        return
    if engine.read_only:
        raise ReadOnlyIndex(
            f"{engine.path} has the edges {list(pipeline.edges)}, not {list(wanted)}: leave edges out, or open "
            "it once for writing with these edges, which derives them again"
        )
    with pipeline.lock:
        stored_as = {EDGES: json.dumps(wanted)}
        _derive(pipeline, wanted, {**stored_as, _UNFINISHED: "yes"})
        engine.write(settings={**stored_as, _UNFINISHED: ""})
        pipeline.read_settings()


def _derive(pipeline: Pipeline, edges: Sequence[Edge], settings: Mapping[str, str]) -> None:
    """Derive the edges of all documents; write those that change, and the settings with each batch."""
    ids = list(pipeline.engine.document_ids())
    with pipeline.progress_bar("edges", len(ids)) as bar:
        for start in range(0, len(ids), pipeline.batch_size):
            stored = pipeline.engine.parsed(ids[start : start + pipeline.batch_size])
            derived = [with_edges(without_edges(one), edges) for one in stored]
            pairs = zip(derived, stored, strict=True)
            changed = [a for a, b in pairs if a.extractions != b.extractions or a.names != b.names]
            _rewrite(pipeline, changed, settings)
            bar.update(len(stored))


def extract_again(pipeline: Pipeline, progress: bool | None = None) -> Added:
    """Extract the entities and facts of all documents again from the stored chunks, in batches.

    Of an index that embeds names, new ones are embedded. A document whose extraction fails keeps what it has, and is
    reported.
    """
    if pipeline.embedder is None and pipeline.embed_names:
        raise InputError("the names of this index are embedded: open it with its embedder to rebuild it")
    again = Added()
    with pipeline.writing(), pipeline.progress_bar("extracting", len(pipeline.engine), progress) as bar:
        for ids in _batches_of_sources(pipeline):
            parsed, failed = _extract_or_report(pipeline, pipeline.engine.parsed(ids))
            _rewrite(pipeline, parsed, {})
            again += Added(replaced=len(parsed), unchanged=len(failed), problems=failed)
            bar.update(len(ids))
    return again


def _rewrite(pipeline: Pipeline, parsed: Sequence[ParsedDocument], settings: Mapping[str, str]) -> None:
    """Write stored documents again, with vectors of new names."""
    parsed, names = pipeline.embedded(parsed)
    pipeline.write(parsed, [one.document.id for one in parsed], names, settings)
    pipeline.engine.flush()


def _batches_of_sources(pipeline: Pipeline) -> Iterator[list[str]]:
    """Yield the ids of all documents in batches. The pieces of a source are in one batch, unless they are many."""
    engine = pipeline.engine
    added = engine.read(lambda records: [row[1] for page in records.document_pages("key, id") for row in page])
    by_source: defaultdict[int, list[str]] = defaultdict(list)
    for document in map(engine.document, added):
        if document is not None:  # else another process has deleted it
            by_source[hash64(extractors.source_of(document.id, document.metadata))].append(document.id)
    batch: list[str] = []
    most = MOST_BATCHES * pipeline.batch_size
    for ids in by_source.values():
        for start in range(0, len(ids), most):
            batch += ids[start : start + most]
            if len(batch) >= pipeline.batch_size:
                yield batch
                batch = []
    if batch:
        yield batch


def _extract_or_report(
    pipeline: Pipeline, stored: Sequence[ParsedDocument]
) -> tuple[list[ParsedDocument], dict[str, str]]:
    """Return documents with new extractions, and why the extraction of others failed.

    If the extractor raises an error, each source is extracted alone.
    """
    try:
        parsed = _extracted_again(pipeline, stored)
    except ExtractionError as error:
        groups = extractors.sources([one.chunks[0] for one in stored])
        if len(groups) == 1:
            return [], {one.document.id: str(error) for one in stored}
        found, failed = list[ParsedDocument](), dict[str, str]()
        for group in groups:
            again, reasons = _extract_or_report(pipeline, [stored[position] for position in group])
            found += again
            failed |= reasons
        return found, failed
    return [one for one in parsed if one.digest], problems(parsed)


def _extracted_again(pipeline: Pipeline, stored: Sequence[ParsedDocument]) -> list[ParsedDocument]:
    chunked = [with_marks(one.document, one.chunks) for one in stored]
    digests = {one.document.id: _digest(pipeline, one) for one in stored}
    parsed = pipeline.extracted([one.document for one in stored], chunked, digests)
    pairs = zip(parsed, stored, strict=True)
    return [replace(new, metadata=old.metadata, chunk_vectors=old.chunk_vectors) for new, old in pairs]


def _digest(pipeline: Pipeline, stored: ParsedDocument) -> str:
    """Return the digest of a document, or one that none has if the chunker would cut it in another way."""
    digest = pipeline.digest(stored.document)
    if digest == stored.digest:
        return digest
    cuts = [[(chunk.start, chunk.text) for chunk in cut] for cut in (pipeline.split(stored.document), stored.chunks)]
    return digest if cuts[0] == cuts[1] else _OTHER_CHUNKS
