# Two commands: `make demo` runs the app on this machine, `make test` checks everything.
PYTHON ?= python3
VENV := .venv
# Most tests wait for other processes, so more of them run at once than there are cores. Each has its own services.
TEST_PROCESSES ?= 5
BIN := $(VENV)/bin
CHECKED_TESTS := $(BIN)/python -m pytest -q -p tests.support.no_services tests/unit tests/project

# The hooks in .pre-commit-config.yaml are these commands too; a test compares them.
define LINT
$(BIN)/ruff check .
$(BIN)/ruff format --check .
$(BIN)/lint-imports
$(BIN)/mypy
endef
export LINT

# A .venv that came here with a copy of the folder from another machine is no good.
$(shell [ -x $(BIN)/python ] || rm -f $(VENV)/installed)

# Without it each of the many processes of a run would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo check test newcomer drills chaos explore bench screenshots lint words settings lock clean

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

$(VENV)/installed: requirements.txt tests/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Waybill needs Python 3.11 or newer. Name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@mkdir -p $(VENV) 2>/dev/null && [ -w $(VENV) ] \
	  || { echo "Nothing can be written to this folder. Copy the project to a folder of your own, and run it there."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Making $(VENV) and installing the packages. This takes a minute the first time."
	@$(PYTHON) -m venv $(VENV) || { echo "Python could not make $(VENV): see above."; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.txt \
	  || { echo "The packages could not be installed: see above. Check network and disk, then try again."; exit 1; }
	@touch $@

demo: $(VENV)/installed ## run the app on this machine, with everything it needs
	@exec $(BIN)/python -m webapp.local.demo

lint: $(VENV)/installed ## style, types, layers
	$(LINT)

check: $(VENV)/installed ## within a minute: lint, and every test in tests/unit and tests/project that needs no service
	@printf '%s\n' "$$LINT" '$(CHECKED_TESTS)' | $(BIN)/python -m tests.support.side_by_side

test: $(if $(ARGS),$(VENV)/installed,lint) ## lint, then the tests on real services, in six minutes; or ARGS="tests/web -k links"
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal $(or $(ARGS),-m 'not thorough')

thorough: $(VENV)/installed ## the tests that try everything: every field, every page, long runs, all versions
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m thorough

drills: $(VENV)/installed ## staged failures, on services of their own: docs/staging-drills.md
	@directory=$$(mktemp -d /tmp/waybill-drills-XXXXXX); trap 'rm -rf "$$directory"' EXIT; \
	env -u DATABASE_URL -u REDIS_URL WAYBILL_DEMO=1 AI_PROVIDER=local $(BIN)/python -m webapp.local.services "$$directory" \
	  sh -c '$(BIN)/python -m flask --app wsgi db upgrade && exec $(BIN)/python -m tasks drills $(NAMES)'

chaos: $(VENV)/installed ## 300 jobs while everything around them is killed at random; SEED=… repeats a run
	$(BIN)/python -m tests.chaos.run

explore: $(VENV)/installed ## try the orders in which the ledger's operations can meet, for MINUTES=2; SEED=… draws others
	$(BIN)/python -m tests.explore.run --minutes $(or $(MINUTES),2) --seed $(or $(SEED),1)

bench: $(VENV)/installed ## Waybill beside its peers, in 15 minutes; PARTS="pickup throughput" measures some parts
	$(BIN)/python -m benchmarks.beside_peers $(PARTS)

screenshots: $(VENV)/installed ## take the pictures in docs/img again; needs Chromium: docs/pictures.md
	$(BIN)/python -m tests.screenshots

words: $(VENV)/installed ## find all texts for people, and bring the catalogues in tasks/i18n/ up to them
	@words=$$(mktemp); trap 'rm -f "$$words"' EXIT; $(BIN)/pybabel --quiet extract -F pyproject.toml -k lazy -k plural:1,2 --no-location \
	  --sort-output --width 120 --omit-header -o "$$words" . && for language in $(notdir $(basename $(wildcard tasks/i18n/*.po))); do \
	  $(BIN)/pybabel --quiet update --no-fuzzy-matching --ignore-obsolete --omit-header --width 120 -i "$$words" -l $$language \
	  -o tasks/i18n/$$language.po; done

settings: $(VENV)/installed ## write docs/settings.md from tasks/settings/__init__.py
	$(BIN)/python -m tasks settings > docs/settings.md.new && mv docs/settings.md.new docs/settings.md

lock: $(VENV)/installed ## write the lock files from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --upgrade pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --all-extras -c requirements.txt pyproject.toml -o tests/requirements.txt

newcomer: $(VENV)/installed ## the two commands on a machine where nothing ran before, as root and as another user
	$(BIN)/python -m pytest tests/newcomer -v -p no:cacheprovider $(ARGS)

clean: ## remove the virtual environments and the demo's data
	rm -rf "$$(readlink .demo/postgresql/data)"
	rm -rf $(VENV) .demo .bench
