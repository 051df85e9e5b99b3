# Everything a fresh machine with Python 3.11 and make needs: `make paper` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help paper demo test soak lint format bench clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

paper: $(READY) ## every figure of the paper, its statistics and claims: report/index.html
	$(BIN)/posse paper

demo: $(READY) ## 100 agents on a cycle: a table, and a plot in results/
	$(BIN)/posse run experiments/demo.toml

test: $(READY) ## the test suite, on all cores
	@command -v chromedriver >/dev/null || echo "NO BROWSER: the report's page goes untested;" \
	  "to test it too: apt-get install chromium chromium-driver"
	@echo "compiling the kernels (once)"; $(BIN)/python -m posse.lab.compiled
	$(BIN)/python -m pytest -n auto --dist worksteal

soak: $(READY) ## eight live agents killed, stopped, cut off, flooded, out of space: 4 minutes
	$(BIN)/python -m pytest tests/soak --soak-seconds 60

lint: $(READY) ## ruff, mypy --strict and the layer rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY) ## let ruff format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure speed, as ratios taken in one run
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/live.py

clean: ## remove what the other commands made
	rm -rf .venv results report .pytest_cache .mypy_cache .ruff_cache .hypothesis
