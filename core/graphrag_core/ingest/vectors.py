"""What is embedded of documents: the texts of their passages, their tokens, and the names of entities if asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from graphrag_core.errors import DocumentError
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.model import Chunk, Extraction
from graphrag_core.ports import Matrix, ParsedDocument
from graphrag_core.text import chunk_text, fact_text, label
from graphrag_core.text.markup import plain

Vectors = Mapping[str, Sequence[float]]
"""Vectors by document id, or by text."""


def embedded_texts(parsed: ParsedDocument) -> list[str]:
    """Return the texts that are embedded for a document's chunks."""
    return [chunk_text(label(chunk.title, chunk.headings), plain(chunk.text)) for chunk in parsed.chunks]


def stored_vectors(stored: Sequence[ParsedDocument]) -> dict[str, Matrix]:
    """Return the vectors of stored documents, by text."""
    found = dict[str, Matrix]()
    for one in stored:
        found |= zip(embedded_texts(one), () if one.chunk_vectors is None else one.chunk_vectors, strict=False)
    return found


def with_vectors(
    embedder: CheckedEmbedder,
    parsed: Sequence[ParsedDocument],
    stored: Sequence[ParsedDocument],
    given: Vectors,
    embeddings: Vectors,
) -> list[ParsedDocument]:
    """Return documents with the vectors and the tokens of their chunks; those that have vectors keep them.

    ``stored`` are documents whose vectors are taken for equal texts, ``given`` known vectors of documents, and
    ``embeddings`` known vectors of texts.
    """
    rows = {one.document.id: one.chunk_vectors for one in parsed if one.chunk_vectors is not None}
    rows |= {name: _given(embedder, one, given[name]) for one in parsed if (name := one.document.id) in given}
    texts = {one.document.id: embedded_texts(one) for one in parsed if one.document.id not in rows}
    rows |= _embedded(embedder, texts, stored_vectors(stored), embeddings)
    return [
        replace(one, chunk_vectors=rows[one.document.id], chunk_tokens=ids, token_counts=counts)
        for one, (ids, counts) in zip(parsed, _tokens(embedder, parsed), strict=True)
    ]


def _embedded(
    embedder: CheckedEmbedder, texts: Mapping[str, Sequence[str]], known: Mapping[str, Matrix], embeddings: Vectors
) -> dict[str, Matrix]:
    """Return the vectors of the texts of documents, by id; ``known`` are vectors by text."""
    new = {text: name for name, own in texts.items() for text in own if text not in known}
    vectors = {**known, **dict(zip(new, embedder.documents([*new], [*new.values()], embeddings), strict=True))}
    return {name: np.stack([vectors[text] for text in own]) for name, own in texts.items()}


def _given(embedder: CheckedEmbedder, parsed: ParsedDocument, vector: Sequence[float]) -> Matrix:
    """Return the vector that was passed for a document, which must be a single chunk."""
    document_id, chunks = parsed.document.id, parsed.chunks
    if len(chunks) > 1:
        raise DocumentError(
            document_id,
            f"a vector was passed for it, but it was cut into {len(chunks)} chunks: "
            "leave the vector out, or keep documents whole with chunker=None",
        )
    return embedder.given(document_id, vector)[None, :]


def embedded_names(parsed: Sequence[ParsedDocument]) -> dict[str, str]:
    """Return the names to embed, all but addresses of sections, each with the id of a document that has it."""
    return {name: one.document.id for one in parsed for names in one.names for name in names if name[:1] != "→"}


Tokens = tuple[list[bytes] | None, list[bytes] | None]
"""The token ids of each chunk, and how many its label, its facts and the rest have, packed."""


def _tokens(embedder: CheckedEmbedder, parsed: Sequence[ParsedDocument]) -> list[Tokens]:
    """Return the tokens of documents; None for each if the embedder has no token ids."""
    if not embedder.has_tokens:
        return [(None, None)] * len(parsed)
    pieces = [_pieces(*pair) for one in parsed for pair in zip(one.chunks, one.extractions, strict=True)]
    ids = iter(embedder.token_ids([text for own in pieces for text in own]))
    chunks = iter([[next(ids).astype("<u2") for _ in own] for own in pieces])
    found: list[Tokens] = []
    for one in parsed:
        own = [next(chunks) for _ in one.chunks]
        counts = [np.array([*map(len, parts)], "<u2").tobytes() for parts in own]
        found.append(([np.concatenate(parts).tobytes() for parts in own], counts))
    return found


def _pieces(chunk: Chunk, extraction: Extraction) -> list[str]:
    """Return the label of a chunk, its facts, and the rest of its text."""
    name, text, at = label(chunk.title, chunk.headings), plain(chunk.text), 0
    pieces, rest = [name], []
    for fact in extraction.facts:
        if fact.relation:
            pieces.append(fact_text(name, fact.text, fact.relation, (*fact.entities, fact.value)))
            continue
        pieces.append(fact.text)
        if (start := text.find(fact.text, at)) >= 0:
            rest.append(text[at:start])
            at = start + len(fact.text)
    return [*pieces, " ".join([*rest, text[at:]])]
