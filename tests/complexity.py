"""Check the complexity of functions, with radon: ``python tests/complexity.py``, as ``make lint`` does.

ruff counts statements only. radon also counts comprehensions, conditional expressions and boolean operators, so that
decisions cannot hide in expressions.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from radon.complexity import cc_visit
from radon.visitors import Class, Function

ROOT = Path(__file__).parents[1]
FOLDERS = ("core", "llama_graphrag", "langchain_graphrag", "benchmarks")
MAX = 25  # complexity of any function
USUAL = 15
LIMIT = 25  # number of functions above USUAL


def functions(blocks: Iterable[Class | Function]) -> Iterator[Function]:
    """Yield functions, methods and closures. radon lists the methods of outer classes beside their class."""
    for block in blocks:
        if isinstance(block, Function):
            yield block
            yield from functions(block.closures)
        else:
            for inner in block.inner_classes:
                yield from functions([*inner.methods, inner])


def main() -> None:
    """Print the functions above ``USUAL``; fail if one is above ``MAX``, or if more than ``LIMIT`` are listed."""
    listed: list[tuple[int, str]] = []
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        for function in functions(cc_visit(path.read_text("utf-8"))):
            if function.complexity > USUAL:
                where = f"{path.relative_to(ROOT)}:{function.lineno}"
                listed.append((function.complexity, f"{where} {function.fullname}"))
    listed.sort(key=lambda entry: -entry[0])
    above_max = sum(complexity > MAX for complexity, _ in listed)
    print(f"{len(listed)} functions with a complexity above {USUAL}, at most {LIMIT} may be; {above_max} above {MAX}")  # noqa: T201
    if above_max or len(listed) > LIMIT:
        print("\n".join(f"{complexity:3} {text}" for complexity, text in listed))  # noqa: T201
        advice = "Simplify a function, or move one idea of it into a function with a name that says it."
        sys.exit(f"{advice} None may be above {MAX}, and at most {LIMIT} above {USUAL}.")


if __name__ == "__main__":
    main()
