# These targets need Python 3.10+ and make, and no compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types layers check torture torture-sample notebooks docs wheel check-wheels test-oldest test-browser \
	screenshots test-frameworks-oldest bench-index bench-latency bench-quality bench-calibration bench-postgres bench-growth \
	bench-serve bench-peers bench-hops oracles-check clean

demo: $(VENV)/.demo
	@$(BIN)/hybrid-graphrag demo

# Two targets at a time: the tests often wait, and most other targets use one core. Each prints when it ends.
test: $(VENV)/.docs
	@$(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) \
		lint types layers check torture-sample notebooks docs wheel

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/complexity.py

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

check: $(VENV)/.dev
	$(BIN)/pytest --doctest-modules --numprocesses auto --dist worksteal --quiet

# Kills, full disks, exceptions at every line, damaged files, hostile input, tenants, a server and PostgreSQL, for an hour;
# writes the counts into docs/reliability.md. Less: make torture MINUTES=5
torture: $(VENV)/.dev
	RUST_BACKTRACE=0 PYTHONPATH=benchmarks $(BIN)/python -m torture.run $(or $(MINUTES),60) --write

torture-sample: $(VENV)/.dev
	RUST_BACKTRACE=0 PYTHONPATH=benchmarks $(BIN)/python -m torture.run 0.75 --sample

# Runs every notebook and compares its output with the stored one. Store it again: make notebooks KEEP=--keep
notebooks: $(VENV)/.dev
	$(BIN)/python notebooks/execute.py $(KEEP)

# The site, into build/site. A page that is missing in the navigation, a broken link or anchor, and a docstring that cannot be
# parsed are errors. Then the built pages are checked.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	SITE=build/site $(BIN)/pytest --quiet tests/test_site.py

wheel: $(VENV)/.dev
	$(BIN)/python tests/wheel_smoke.py

# Whether everything that `make demo` and `make test` install has a wheel for each platform and Python version.
check-wheels: $(VENV)/.dev
	$(BIN)/python tests/check_wheels.py

# The oldest versions that pyproject.toml allows, in a separate environment.
test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --requirement tests/oldest.txt
	PYTHONPATH=core $(VENV)-oldest/bin/python -m pytest -W default -p no:cacheprovider tests/core -k "not Onnx"

# The explain page and the graph explorer in a real Chromium, which is installed if it is missing.
test-browser: $(VENV)/.browser
	BROWSER_NEEDED=1 $(BIN)/pytest tests/page/test_browser.py tests/explore/test_browser.py

# Pictures of the demo, its page and the graph explorer; tests/test_pictures.py says when they are out of date.
screenshots: $(VENV)/.browser
	PYTHONPATH=tests $(BIN)/python docs/screenshot.py

# The oldest framework versions that the extras allow, each in a separate environment; `make test` has the newest.
test-frameworks-oldest:
	for adapter in $(patsubst tests/oldest-%.txt,%,$(wildcard tests/oldest-*.txt)); do \
		$(PYTHON) -m venv $(VENV)-oldest-$$adapter && \
		$(VENV)-oldest-$$adapter/bin/python -m pip install --quiet --requirement tests/oldest-$$adapter.txt --editable . && \
		$(VENV)-oldest-$$adapter/bin/python -m pytest -W default -p no:cacheprovider tests/$$adapter tests/adapters || exit 1; \
	done

# CPU time of reading and indexing files, and of a query on the command line.
bench-index: $(VENV)/.dev
	$(BIN)/python benchmarks/index.py

# A question through LangChain as a multiple of embedding it and searching FAISS, beside an older commit, and what a filter costs:
# make bench-latency SIZES="20000 100000" takes synthetic documents
bench-latency: $(VENV)/.dev
	$(BIN)/python benchmarks/latency.py $(SIZES)

bench-quality: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py

# How reliable the scores of hits are, and their weights fitted anew.
bench-calibration: $(VENV)/.dev
	$(BIN)/python benchmarks/calibration.py $(EMBEDDERS)

# PostgreSQL beside a folder: make bench-postgres SIZES="30000 100000"; DATABASE_URL names a server.
bench-postgres: $(VENV)/.dev
	$(BIN)/python benchmarks/postgres.py $(SIZES)

# Build, open, question, memory, disk and the cost of one more document as the index grows;
# writes docs/growth.md: make bench-growth SIZES="10000 100000 1000000"
bench-growth: $(VENV)/.dev
	$(BIN)/python benchmarks/growth.py $(SIZES)

# Questions per second and core in one process and behind uvicorn, and stalls of the event loop while documents are added; writes
# the table into docs/serve.md. Another size, printed only: make bench-serve SIZE=20000
bench-serve: $(VENV)/.dev
	$(BIN)/python benchmarks/serve.py $(SIZE)

# Beside FAISS, bm25s, LlamaIndex, LangChain, LightRAG and HippoRAG, each in an environment of its own; writes
# its section of benchmarks/RESULTS.md. A part: make bench-peers PEERS="faiss_flat bm25s" SETS=musique_train. REUSE=1 keeps what was measured.
bench-peers: $(VENV)/.dev
	PYTHONPATH=benchmarks $(BIN)/python -m peers.run $(if $(PEERS),--peers $(PEERS)) $(if $(SETS),--sets $(SETS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(REUSE),--reuse)

# Functions and modules that one query and one add run through. List them: make bench-hops V=-v
bench-hops: $(VENV)/.dev
	$(BIN)/python benchmarks/hops.py $(V)

# Ids, scores and contexts of the working tree beside another commit, through public names. The commit is unpacked into
# .oracles and recorded once: make oracles-check FROM=HEAD~3 SETS="docs_dev musique_train" QUESTIONS=30 FILTERS=half V=--verbose
oracles-check: $(VENV)/.dev
	$(BIN)/python benchmarks/oracles.py --from $(or $(FROM),HEAD) $(if $(SETS),--sets $(SETS)) $(if $(FILTERS),--filters $(FILTERS)) \
		$(if $(QUESTIONS),--questions $(QUESTIONS)) $(V)

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or newer is needed: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	@echo "Installing into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[cli,files]'
	@touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	@echo "Installing into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[cli,files,langchain,llama,onnx,dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[docs]'
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[browser,serve]'
	@$(BIN)/python tests/browser.py 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -qq --yes --no-install-recommends chromium fonts-noto-core >/dev/null; \
		else $(BIN)/playwright install chromium; fi
	@$(BIN)/python tests/browser.py
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest* $(VENV)-peers .bench-peers .oracles dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
