"""What must not be in the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [p for folder in ("core", "llama_graphrag", "langchain_graphrag") for p in (ROOT / folder).rglob("*.py")]
MAY_LISTEN = ROOT / "core" / "graphrag_apps" / "serve" / "http.py"  # options of the connections that clients open
MAY_CONNECT = ROOT / "core" / "graphrag_core" / "llm.py"  # a language model, when one is given
MAY_WRITE_PICKLES = ROOT / "core" / "graphrag_core" / "index.py"  # to test an embedder; reads none
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "joblib"}
NETWORK_MODULES = {"socket", "urllib", "http", "requests", "httpx"}
SUSPICIOUS = re.compile(rf"\b({'|'.join(FORBIDDEN_CALLS | FORBIDDEN_MODULES | NETWORK_MODULES)}|allow_pickle)\b")


def test_no_pickle_no_eval_no_network():
    for path in SOURCES:
        source = path.read_text("utf-8")
        if not SUSPICIOUS.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in FORBIDDEN_CALLS, f"{path}:{node.lineno}"
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            forbidden = FORBIDDEN_MODULES if path == MAY_CONNECT else FORBIDDEN_MODULES | NETWORK_MODULES
            used = {name.split(".")[0] for name in names if name != "urllib.parse"}  # which only reads addresses
            if path == MAY_LISTEN:
                used -= {"socket"}
            if path == MAY_WRITE_PICKLES:
                used -= {"pickle"}
            assert not used & forbidden, f"{path}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant)
                assert node.value.value is False
