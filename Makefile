# Everything happens in a virtual environment in the checkout; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench upstream clean

demo: $(VENV)/installed  ## an agent is killed with -9 and goes on from its thread id
	$(BIN)/python examples/demo.py

test: $(VENV)/installed  ## the tests
	$(BIN)/python -m pytest -q -n auto

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/installed
	$(BIN)/python benchmarks/run.py

upstream: $(VENV)/installed  ## LangGraph's own checkpointer tests, from its sdist, on JsonlSaver
	$(BIN)/python tests/upstream/run.py

$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .upstream .mypy_cache .ruff_cache .pytest_cache .hypothesis
