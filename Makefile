# Everything goes through `setup`, which makes .venv once and does nothing while its stamp is newer than
# the two files that say what is installed. CI and `make test` run the same commands.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
BENCH_READY := $(VENV)/bench-ready
BENCHMARKS := $(filter-out benchmarks/machine.py,$(wildcard benchmarks/*.py))

# The first Python on the path that is new enough; `make PYTHON=/path/to/python3 setup` chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.PHONY: help setup demo test test-flower lint format bench screenshots clean

help:  ## Say what each target does
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## Make .venv with the package, its extras and the tools

demo: $(READY)  ## The main job: five methods train on real digits, and a table of what each cost and reached
	$(BIN)/fedcode run fedavg fedavg_ws fedzip fedcode delta

test: lint  ## ruff, mypy, pytest with warnings as errors
	$(BIN)/python -m pytest

test-flower: $(READY)  ## What takes minutes: Flower's simulation with Ray, and deployments on loopback that break
	$(BIN)/python -m pytest tests/flower -m flower

lint: $(READY)  ## ruff and mypy only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY)  ## Let ruff put the sources in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(BENCH_READY)  ## Every benchmark; results/ receives what it measured
	@mkdir -p results
	@set -e; for script in $(BENCHMARKS); do \
		echo "== $$script"; \
		$(BIN)/python $$script --json results/$$(basename $$script .py).json; \
	done

screenshots: $(READY)  ## docs/images from a run of the demo (kept in runs/screenshots); takes Chromium
	test -d runs/screenshots || $(BIN)/fedcode run fedavg fedavg_ws fedzip fedcode delta --out runs/screenshots
	$(BIN)/python docs/make_screenshots.py

clean:  ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# torch goes first and alone: pip then takes the build that this machine offers for that release
# (a CPU build where one is at hand), and what follows finds it installed.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "fedcode needs Python 3.11 or newer: none found on the path" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[train,flower,report,tensorboard,mlflow,parquet]' --group dev
	@touch $@

$(BENCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt --group bench
	@touch $@
