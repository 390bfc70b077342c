# make demo   set up, run the pipeline over the sample, print where the report is
# make test   set up, run the tests
# Both start from a bare checkout with Python 3.11 or 3.12. PYTHON=python3.12 chooses another interpreter.

# The first interpreter that runs and is of a tested version.
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Two at a time; the tests of a file share what it sets up, so they stay together.
PYTEST := python -m pytest -n 2 --dist loadfile

# The public data sets that `make quality` measures on.
DATA ?= ../shared/data

.PHONY: demo demo-small test test-all test-histories test-lake test-kills test-ray test-resumes models lint types plugins docs quality streaming bench-setup clean

# torch first: deepspeed is built from source against it. DS_BUILD_OPS=0 compiles no kernels; DeepSpeed makes those it uses.
$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || \
	  { echo "Terraplane needs Python 3.11 or 3.12: make PYTHON=python3.12 ..." >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --quiet --upgrade pip "setuptools>=77" wheel ninja
	$(PIP) install --quiet --quiet "torch>=2.11,<2.14" numpy
	DS_BUILD_OPS=0 $(PIP) install --quiet --quiet --no-build-isolation --editable ".[train,sample,dev]"
	touch $@

# What the operators need, once for all targets of a call.
models: $(VENV)/installed
	dataplane models fetch

demo: models
	dataplane plugins lock
	test -d .dvc || dvc init --quiet
	dvc repro
	@dataplane tour

test: models
	$(PYTEST) -m "not slow"

test-all: models
	$(PYTEST)

# The slow tests of what the lake promises: examples of the docs, history under DVC in both modes, purges, kills, a Ray cluster.
test-histories: test-lake test-kills test-ray test-resumes

test-lake: models
	$(PYTEST) tests/docs tests/end_to_end
	$(PYTEST) tests/upkeep -k "cached-lance or referenced-parquet"

test-kills: models
	python -m tests.faults.kill --count 20
	python -m tests.faults.upkeep --every 6

test-ray: models
	python -m pytest tests/engine/test_ray_engine.py

test-resumes: $(VENV)/installed
	python -m tests.faults.resume --count 10

# The whole pipeline over a small sample, twice.
demo-small: models
	.ci/demo_small

lint: $(VENV)/installed
	ruff check .
	ruff format --check .

types: $(VENV)/installed
	mypy

plugins: $(VENV)/installed
	$(PIP) install --quiet --quiet --no-build-isolation --no-deps ./plugins/terraplane-emoji
	python -m pytest plugins/terraplane-emoji

# docs/operators.md, out of the code, its examples and benchmarks/results.
docs: $(VENV)/installed
	python -m benchmarks.operators_page

# Measures every operator and rule anew: quality on the sets of DATA, speed beside the peers. What could not be measured is named at the end.
quality: $(VENV)/installed
	dataplane models fetch lid.176
	status=0; python -m benchmarks.measure --data $(DATA) || status=$$?; python -m benchmarks.operators_page; exit $$status

# Peers that want other versions of what the project stands on, or nothing else does, live in an environment of their own.
bench-setup: $(VENV)/installed .venv-peers/installed

.venv-peers/installed: benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --disable-pip-version-check --quiet --quiet --requirement benchmarks/peers.txt
	touch $@

# mosaicml-streaming wants transformers < 5 and numpy < 2.2, so the reader that MDS exports are tested with lives alone.
streaming: .venv-streaming/installed

.venv-streaming/installed:
	$(PYTHON) -m venv .venv-streaming
	.venv-streaming/bin/python -m pip install --quiet --quiet "mosaicml-streaming>=0.13,<0.14"
	touch $@

clean:
	rm -rf $(VENV) .venv-streaming .venv-peers lake models metrics plots report journal data/sample
