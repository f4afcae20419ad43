"""Execute every notebook here and compare what it prints with what is kept in it.

``--keep`` keeps what was printed now. Pictures are drawn but not compared: their bytes depend on the library that draws
them. Nor are the outputs of a cell with the tag ``varies``, which depend on the version of Python.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def execute(path: Path, *, keep: bool) -> bool:
    """Run one notebook; say whether its outputs are those that were kept."""
    kept = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    client = NotebookClient(
        fresh, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
    )  # fmt: skip
    client.execute(cwd=str(HERE))
    if keep:
        fresh.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        nbformat.write(fresh, path)
        return True
    difference = list(
        difflib.unified_diff(_printed_lines(kept), _printed_lines(fresh), "kept", "printed now", lineterm="", n=1)
    )
    print(f"{path.name}: {'as kept' if not difference else 'prints something else'}")
    print("\n".join(difference))
    return not difference


def _printed_lines(notebook: Any) -> list[str]:
    lines = []
    cells = [
        cell for cell in notebook.cells if cell.cell_type == "code" and "varies" not in cell.metadata.get("tags", ())
    ]
    for number, cell in enumerate(cells):
        for output in cell.outputs:
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            if not any(kind.startswith("image/") for kind in output.get("data", {})):
                lines += [f"[{number}] {line}" for line in text.splitlines()]
    return lines


def main() -> None:
    """Run them all."""
    same = [execute(path, keep="--keep" in sys.argv) for path in sorted(HERE.glob("*.ipynb"))]
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
