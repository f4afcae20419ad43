"""A question runs on the thread that asks it: the threads of BLAS, which would spin beside it, are not woken."""

import subprocess
import sys

import pytest

QUESTIONS = """
import time
from pathlib import Path

import numpy as np

TASKS = Path("/proc/self/task")
OF_BLAS = sorted(task.name for task in TASKS.iterdir() if task.name != TASKS.parent.resolve().name)

def schedules():
    time.sleep(0.2)  # a thread that was woken runs by now
    return [(TASKS / task / "schedstat").read_text() for task in OF_BLAS]

from graphrag_apps.ask import ask
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_apps.demo import sample_documents
from graphrag_core.embedders import WordLlama

documents = [*sample_documents()]
index = KnowledgeIndex(WordLlama(), progress=False)
index.add(documents)
retriever = GraphRetriever(index, k=50)
before = schedules()
assert before, "BLAS has no threads"
for document in documents[:3]:
    retriever.retrieve(document.text[:400])
    ask(retriever, document.text[:400])
assert schedules() == before
np.ones((500, 500)) @ np.ones((500, 500))
assert schedules() != before, "this test would not see the threads"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_question_wakes_no_thread_of_blas():
    run = subprocess.run(
        [sys.executable, "-c", QUESTIONS],
        env={"OPENBLAS_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
