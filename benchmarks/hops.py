"""How many of our functions and modules one query and one ``add`` run through, and their calls: ``make bench-hops``.

Counts distinct functions with ``sys.setprofile``, in all threads, for one LangChain ``invoke`` over two documents
and one ``add`` of two documents, and the calls of our functions before the question is embedded. Comprehensions and
generator expressions are part of their function. ``-v`` lists them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.documents import Document as LangChainDocument

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from langchain_graphrag import GraphRAGRetriever

PACKAGES = {"graphrag_core", "graphrag_apps", "langchain_graphrag", "llama_graphrag"}
LIMITS = {"invoke": "130 functions in 26 modules", "add": "120 functions in 26 modules"}
BEFORE_EMBEDDING = 15
DOCUMENTS = [
    Document("auth", "The Auth Service delegates sign-in to the OAuth Provider.", "Auth Service"),
    Document("oauth", "The OAuth Provider speaks to Keyring.", "OAuth Provider"),
]

Function = tuple[str, int, str]


def functions(work: Callable[[], object]) -> tuple[list[Function], int]:
    """Return module, line and name of every call of our functions, and the number of calls of any function."""
    seen: list[Function] = []
    calls = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        code = frame.f_code
        if event == "call" and not code.co_name.endswith(("comp>", "<genexpr>")):
            parts = Path(code.co_filename).parts
            if ours := PACKAGES.intersection(parts):
                start = len(parts) - 1 - parts[::-1].index(ours.pop())
                seen.append(("/".join(parts[start:]), code.co_firstlineno, code.co_name))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen, calls


def main() -> None:
    retriever = GraphRAGRetriever.from_documents(
        [LangChainDocument(d.text, id=d.id, metadata={"title": d.title}) for d in DOCUMENTS], WordLlama()
    )
    retriever.invoke("the first query builds the graph")
    index = KnowledgeIndex(WordLlama())
    runs = {
        "invoke": functions(lambda: retriever.invoke("Which vendor does the Auth Service rely on?")),
        "add": functions(lambda: index.add(DOCUMENTS)),
    }
    for name, (seen, calls) in runs.items():
        distinct, modules = set(seen), {module for module, _, _ in seen}
        print(f"{name:<8}{len(distinct)} functions in {len(modules)} modules (at most {LIMITS[name]}), {calls:,} calls")
        if "-v" in sys.argv:
            print("\n".join(f"        {module}:{line} {function}" for module, line, function in sorted(distinct)))
    asked = runs["invoke"][0]
    before = asked[: [function for _, _, function in asked].index("embed_query")]
    print(f"{len(before)} calls before the question is embedded (at most {BEFORE_EMBEDDING})")
    if "-v" in sys.argv:
        print("\n".join(f"        {module}:{line} {function}" for module, line, function in before))


if __name__ == "__main__":
    main()
