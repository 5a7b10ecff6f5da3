# Every target sets up what it needs: `demo` the core and [plot] only, the others all extras.
PYTHON ?= python3
PY = .venv/bin/python
PIP = $(PY) -m pip install -q -c constraints.txt
EXTRAS = baselines,plot,report,search,docs,dev

.PHONY: setup demo test test-all check bench docs clean
.DELETE_ON_ERROR:

setup: .venv/.all

.venv/.pip: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(PIP) setuptools torch
	touch $@

.venv/.core: .venv/.pip pyproject.toml
	$(PIP) --no-build-isolation -e '.[plot]'
	touch $@

.venv/.all: .venv/.pip pyproject.toml
	$(PIP) --no-build-isolation -e '.[$(EXTRAS)]'
	touch .venv/.core $@

demo: .venv/.core
	.venv/bin/tuplet demo

test: .venv/.all
	$(PY) -m pytest -m "not slow" -n 2 --dist loadfile

test-all: .venv/.all
	$(PY) -m pytest

check: .venv/.all
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(MAKE) docs
	$(MAKE) test

bench: .venv/.all
	$(PY) benchmarks/speed/filter.py --quick
	$(PY) benchmarks/speed/training.py --quick
	.venv/bin/tuplet bench run benchmarks/smoke.toml --out build/smoke.jsonl
	.venv/bin/tuplet bench report build/smoke.jsonl

docs: .venv/.all
	$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs: docs/_build/html/index.html"

clean:
	rm -rf .venv build dist docs/_build docs/api tuplet-demo .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
