# Nothing but Python 3.10+ and make is needed before any of these.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types layers check wheel test-oldest bench-index bench-speed bench-quality clean

demo: $(VENV)/.demo
	@$(BIN)/python -m graphrag_core.demo

test: lint types layers check wheel

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

check: $(VENV)/.dev
	$(BIN)/pytest --doctest-modules

wheel: $(VENV)/.dev
	$(BIN)/python tests/wheel_smoke.py

# The oldest versions that pyproject.toml allows, in an environment of their own.
test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --requirement tests/oldest.txt
	PYTHONPATH=core $(VENV)-oldest/bin/python -m pytest -W default -p no:cacheprovider tests/core -k "not Onnx"

bench-index: $(VENV)/.dev
	$(BIN)/python benchmarks/index.py

bench-speed: $(VENV)/.dev
	$(BIN)/python benchmarks/speed.py

bench-quality: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or newer is needed: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	@echo "Installing into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli]'
	@touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	@echo "Installing into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[cli,onnx,dev]'
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
