# Everything happens in a virtual environment in the checkout; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest

.PHONY: demo test test-slow test-oldest lint bench upstream clean

demo: $(VENV)/installed  ## an agent is killed with -9 and goes on from its thread id
	$(BIN)/python examples/demo.py

test: $(VENV)/installed  ## the tests
	$(BIN)/python -m pytest -q -n auto -m "not slow"

test-slow: $(VENV)/installed  ## those that take longest
	$(BIN)/python -m pytest -q -n auto -m slow

# Failing disks, races, damage, forgers and layouts know nothing of the versions of others.
VERSIONLESS := faults races damage hostile pack

test-oldest: $(OLDEST)/installed  ## the tests with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -q -n auto -m "not slow" $(VERSIONLESS:%=--ignore=tests/%)

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/installed-bench  ## the benchmarks; ARGS=quick for three minutes of them, ARGS="chat reads" for some
	$(BIN)/python benchmarks/run.py $(ARGS)

upstream: $(VENV)/installed  ## LangGraph's own checkpointer tests, from its sdist, on JsonlSaver
	$(BIN)/python tests/upstream/run.py

$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	touch $@

# What only the benchmarks need, drawing and PostgreSQL, is not installed for the tests.
$(VENV)/installed-bench: $(VENV)/installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	touch $@

$(OLDEST)/installed: pyproject.toml
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	pins=$$($(OLDEST)/bin/python -c 'import re, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*(re.sub(">=([^,]+).*", r"==\1", each) for each in project["dependencies"]))') && \
	  $(OLDEST)/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]' $$pins
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .upstream .mypy_cache .ruff_cache .pytest_cache .hypothesis
