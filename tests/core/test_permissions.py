"""Permissions that are lost while documents are added: an error that says so, and nothing is half done."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import pytest
import scipy.sparse  # noqa: F401 - another user may not read it

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import GraphRAGError
from graphrag_core.testing import HashEmbedder

NOBODY = 65_534
OLD, NEW = Document("1", "The Keyring failed."), Document("2", "Mara Lindqvist runs the Keyring.")


def _add_without_permission(folder: Path, closed: str, pipe) -> None:
    """Add a document as a user who is not root, to an index one of whose folders became read-only meanwhile."""
    if os.getuid() == 0:
        with KnowledgeIndex.open(folder / "root", HashEmbedder(), progress=False) as index:
            index.add([OLD])  # imports what this user may not read
            GraphRetriever(index).retrieve("Keyring")
            index.verify()
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    kb = folder / "kb"
    problems = []

    def close_places() -> dict[Path, int]:
        places = [kb] if closed == "the folder" else [kb, *kb.rglob("*")]
        modes = {place: place.stat().st_mode for place in places}
        for place in reversed(places):
            place.chmod(0o500 if place.is_dir() else 0o400)
        return modes

    def add(index: KnowledgeIndex) -> None:
        try:
            index.add([NEW])
        except GraphRAGError as error:
            problems.append(str(error))

    with KnowledgeIndex.open(kb, HashEmbedder(), progress=False) as index:
        index.add([OLD])
        modes = close_places()
        add(index)  # files that are open may still be written
        seen = [hit.chunk.document_id for hit in GraphRetriever(index).retrieve("Keyring")]
        for place, mode in modes.items():
            place.chmod(mode)
    with KnowledgeIndex.open(kb, HashEmbedder(), progress=False) as index:
        assert sorted(seen) == index.document_ids() == (["1"] if problems else ["1", "2"])
        index.delete("2")
    modes = close_places()
    problems.clear()
    try:
        with KnowledgeIndex.open(kb, HashEmbedder(), progress=False) as index:
            add(index)
    except GraphRAGError as error:
        problems.append(str(error))
    for place, mode in modes.items():
        place.chmod(mode)
    with KnowledgeIndex.open(kb, HashEmbedder(), progress=False) as index:
        stored = index.document_ids()
        index.add([NEW])
        pipe.send((problems, stored, index.document_ids(), bool(index.verify())))


@pytest.mark.skipif(sys.platform == "win32", reason="needs the permissions of POSIX")
@pytest.mark.parametrize("closed", ["the folder", "all files"])
def test_permissions_that_are_lost_while_documents_are_added(closed):
    with tempfile.TemporaryDirectory() as name:  # the folders of pytest are closed to other users
        folder = Path(name)
        folder.chmod(0o777)
        context = multiprocessing.get_context("fork")
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_add_without_permission, args=(folder, closed, send))
        process.start()
        send.close()
        problems, stored, after, is_sound = receive.recv()
        process.join()
    assert len(problems) == 1
    assert "permission" in problems[0].lower()
    assert stored == ["1"]
    assert after == ["1", "2"]
    assert is_sound
