# Every target does all the set-up that it needs. PYTHON may name another Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-for-tests
RUN_STAMP := $(VENV)/.installed-to-run
# Who has the tools of development has all that a demo needs; others get only that.
INSTALLED := $(if $(wildcard $(STAMP)),$(STAMP),$(RUN_STAMP))
FILE ?=
# Tests of `make check`: no model, socket, thread or sleep.
FAST := tests/house tests/unit tests/machines tests/conformance
# A process for each core: with one more the whole took no less time, and tests that wait for seconds failed. Each starts
# servers of its own, so that many more would only take memory.
SIDE_BY_SIDE := --numprocesses logical --maxprocesses 4 --dist worksteal
ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup models check test sim-long demo serve bench chaos tiny-models format clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the virtual environment and install the package into it

$(STAMP): pyproject.toml tools/setup.sh
	@sh tools/setup.sh venv $(PYTHON) $(VENV) dev
	@touch $@

$(RUN_STAMP): pyproject.toml tools/setup.sh
	@test -e $(STAMP) || sh tools/setup.sh venv $(PYTHON) $(VENV) media
	@touch $@

# The whole suite compares with FunASR itself in one release of PyTorch, which nothing else needs.
$(TEST_STAMP): $(STAMP)
	@sh tools/setup.sh venv $(PYTHON) $(VENV) test
	@touch $@

models: $(INSTALLED) ## pull the models and the demo recordings (once, about 155 MB)
	@$(BIN)/streamscribe models pull --profile whisper demo-recordings

check: $(STAMP) ## lint, types, layers, unit tests with the coverage gate (under 90 s)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest $(FAST) $(SIDE_BY_SIDE) --cov --cov-report=term:skip-covered

test: check models $(TEST_STAMP) ## everything: check, then real models, FunASR, servers and a browser
	@sh tools/setup.sh test-packages
	@$(BIN)/streamscribe models pull telephone-prompts
	@STREAMSCRIBE_TEST_FUNASR=1 $(BIN)/pytest tests $(FAST:%=--ignore=%) $(SIDE_BY_SIDE)

sim-long: $(STAMP) ## run 20,000 seeds of the simulation, with a bar (ARGS=... takes others; see docs/simulation.md)
	@$(BIN)/python -m tests.sim.run --seeds 20000 $(ARGS)

demo: models ## start the server, stream a recording into it, print what it hears (FILE=... takes yours)
	@$(BIN)/streamscribe demo $(FILE)

serve: models ## leave the server running, with a page at http://localhost:8000
	@$(BIN)/streamscribe serve $(ARGS)

bench: $(STAMP) models ## measure against the bars of the issues (the large models' and the hour-long ones apart)
	@$(BIN)/streamscribe models pull telephone-prompts
	@failed=0; \
	$(BIN)/streamscribe bench accuracy --prompts 60 --check || failed=1; \
	$(BIN)/streamscribe bench gateway --check || failed=1; \
	$(BIN)/streamscribe bench silence --check || failed=1; \
	$(BIN)/streamscribe bench streams --check || failed=1; \
	$(BIN)/streamscribe bench passes --check || failed=1; \
	$(BIN)/streamscribe bench hotwords --check || failed=1; \
	$(BIN)/streamscribe bench text --check || failed=1; \
	exit $$failed

chaos: $(STAMP) ## kill, freeze, replace, overload and cut off processes under live streams, over Kafka too (about an hour)
	@failed=0; \
	$(BIN)/streamscribe bench cluster --check || failed=1; \
	$(BIN)/streamscribe bench cluster --kafka --check || failed=1; \
	$(BIN)/streamscribe bench bus --kafka --check || failed=1; \
	$(BIN)/streamscribe bench neighbours --check || failed=1; \
	exit $$failed

tiny-models: $(TEST_STAMP) ## make the small models again (needs espeak-ng; about three hours), then pin them
	@PYTHONPATH=tools $(BIN)/python -m tiny_models all
	@$(BIN)/python tools/pin_bundled.py

format: $(STAMP) ## format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

clean: ## remove what the build made, but not the models
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
