# Everything a fresh machine with Python 3.11 and make needs: `make paper` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
QUICK := tests/test_beliefs.py tests/test_public_face.py tests/families/test_laws.py \
  tests/policies/test_laws.py tests/networks/test_weights.py tests/networks/test_dynamics.py \
  tests/algorithms/test_laws.py tests/lab/test_simulator.py tests/lab/test_results.py \
  tests/lab/test_storage.py tests/lab/test_experiments.py
PORTABLE := tests/lab/compiled/test_golden.py tests/lab/compiled/test_determinism.py \
  tests/lab/compiled/kernels/test_baselines.py tests/algorithms/rivals/test_baselines.py tests/algorithms/test_mixing.py

SCHEDULES ?= 1000
CASES ?= 60
# examples of properties in what test-all adds: fresh ones, whose seed is printed, or the same ones
PROFILE ?= random

.DEFAULT_GOAL := help
.PHONY: help paper demo quick test test-all disguise study soak simulate lint docs format bench screenshots conformance clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 13

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

paper: $(READY) ## reproduce every figure of the paper, its statistics and claims: report/index.html
	$(BIN)/posse paper

demo: $(READY) ## 100 agents on a cycle: a table, and a plot in results/
	$(BIN)/posse run experiments/demo.toml

quick: $(READY) ## test the laws of the core and the main functions of the lab: 40 seconds once kernels are compiled
	$(BIN)/python -m pytest -q -n auto $(QUICK)

# No test waits for kernels that it does not need: workers compile them when a test first does, each
# kernel in one of them.
test: $(READY) ## run the everyday tests, without a browser: 5 minutes on two cores, kernels included
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not long"

test-all: test ## run all tests: also long statistics, real processes, a short soak, the pages in a browser, property tests on new examples
	@command -v chromedriver >/dev/null || echo "NO BROWSER: the pages go untested;" \
	  "to test them too: apt-get install chromium chromium-driver"
	HYPOTHESIS_PROFILE=$(PROFILE) $(BIN)/python -m pytest -n auto --dist worksteal -m "$(if $(filter random,$(PROFILE)),long or hypothesis,long)"

disguise: $(READY) ## run the tests that may depend on the processor, as on another processor
	NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Nehalem $(BIN)/python -m pytest -q -n auto $(PORTABLE)

study: $(READY) ## compute the tables of docs/ from long simulations, and write them: an hour or more
	$(BIN)/python studies/run.py

soak: $(READY) ## kill, stop, cut off and flood eight live agents, and fill their disks: 4 minutes
	$(BIN)/python -m pytest tests/soak --soak-seconds 60

simulate: $(READY) ## run live agents through SCHEDULES=100000 simulated schedules of faults, each from a seed: three hours
	$(BIN)/python -m simulation --schedules $(SCHEDULES)

lint: $(READY) ## ruff, mypy --strict and the layer rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(READY) ## build the documentation as a site: docs/_build/index.html
	$(BIN)/python -m sphinx -W --keep-going -q -E -a -b html docs docs/_build

format: $(READY) ## let ruff format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure speed, as ratios taken in one run
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/live.py

screenshots: $(READY) ## take the pictures of docs/, and check the pages with axe-core (from npm): minutes
	$(BIN)/python -u -m screenshots.take

# Other people's tools, in an environment of their own. One that cannot be installed is skipped aloud.
# obp 0.5.7 says that it needs an older Python, and torch: what is used of it needs neither.
TOOLS := .venv-conformance
$(TOOLS)/.ready: conformance/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[live,parquet]" pytest hypothesis
	while read -r line; do case "$$line" in ''|'#'*) ;; *) \
	  $(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check "$$line" \
	    || echo "NOT INSTALLED: $$line";; esac; done < conformance/requirements.txt
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --ignore-requires-python obp==0.5.7 pyieoe || echo "NOT INSTALLED: obp"
	npm install --silent --no-audit --no-fund --prefix $(TOOLS)/npm openapi-typescript typescript \
	  || echo "NOT INSTALLED: openapi-typescript, typescript"
	@touch $(TOOLS)/.ready

conformance: $(READY) $(TOOLS)/.ready ## run other people's software against real agents, CASES=60 examples an operation: 10 minutes
	$(BIN)/python -m conformance --cases $(CASES)

clean: ## remove the files that the other commands wrote
	rm -rf .venv $(TOOLS) results report docs/_build docs/examples docs/jupyter_execute .pytest_cache .mypy_cache .ruff_cache .hypothesis
