# Everything a developer types. `make help` lists it; nothing is installed outside this folder.
PYTHON  ?= python3
WORKERS ?= 2
MINUTES ?= 30
OPTIONS ?=

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/ready
LOCK  := requirements/dev.txt
PIP   := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check

# Who has the environment in their PATH means the Python it is made with, which it replaces.
export PATH := $(subst $(abspath $(BIN)):,,$(PATH))

# Debian's python3 comes without pip.
define NEED_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "jobqueued needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	echo "Name another one: make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	echo "$(PYTHON) has no pip, which installs what jobqueued needs into $(VENV)." >&2; \
	echo "Install it: apt install python3-pip (Debian, Ubuntu), dnf install python3-pip (Fedora)" >&2; \
	echo "Or name another Python: make PYTHON=python3.12" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help run test check bench fault soak lock clean

help: ## Show this list
	@echo "jobqueued: make TARGET"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-10s%s\n", $$1, $$2 }'

run: $(READY) ## Start the daemon in the foreground with config.example.toml
	@exec $(BIN)/jobqueued serve --config config.example.toml

test: check ## Run the checks, then every test
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

check: $(READY) ## Lint, formatting, types and import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## Run the benchmarks and print the figures
	$(BIN)/python benchmarks/run.py

fault: $(READY) ## Inject every fault under load, about 10 minutes
	$(BIN)/python -m tests.fault.run fault $(OPTIONS)

soak: $(READY) ## Run under all faults mixed, MINUTES=30 by default
	$(BIN)/python -m pytest -m soak --timeout 0
	$(BIN)/python -m tests.fault.run soak --minutes $(MINUTES) $(OPTIONS)

lock: ## Renew requirements/dev.txt from pyproject.toml, with hashes
	$(NEED_PYTHON)
	@$(PYTHON) -m venv --without-pip $(VENV)/lock
	@$(PYTHON) -m pip --python $(VENV)/lock/bin/python install --quiet uv
	@$(VENV)/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
		--extra dev --output-file $(LOCK) pyproject.toml
	@echo "wrote $(LOCK)"

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so an interrupted set-up starts afresh.
$(READY): pyproject.toml $(LOCK)
	$(NEED_PYTHON)
	@echo "[1/3] creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear --without-pip $(VENV)
	@echo "[2/3] installing the locked packages, about half a minute"
	@$(PIP) install --quiet --require-hashes -r $(LOCK)
	@echo "[3/3] installing jobqueued itself"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
