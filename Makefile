# `make run` starts everything, `make test` tests everything. Both set up what is missing first.
.DEFAULT_GOAL := help
.PHONY: help setup run test lint check bench drill

VENV := .venv/bin

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## make .venv what the lock says (nothing to do where it is)
	@sh ops/setup.sh

# exec: Ctrl-C and SIGTERM then reach the stack itself, and its exit status is the target's.
run: setup ## start the whole local stack until Ctrl-C
	@exec $(VENV)/milena up

test: setup ## every test that needs no GPU
	@exec $(VENV)/pytest

# Tests that start processes, servers or a model are left to `make test`.
SLOW := inference edge simulation contract/engines ops/stack connectors/redis connectors/closer real

lint: setup ## format, lint, types, layers
	@$(VENV)/ruff format --check .
	@$(VENV)/ruff check .
	@$(VENV)/mypy
	@$(VENV)/lint-imports

check: lint ## lint and fast tests, under 90 s
	@exec $(VENV)/pytest -q -m "not real" $(addprefix --ignore=tests/,$(SLOW))

bench: setup ## Milena's share of the time to first token, per hop
	@exec $(VENV)/milena bench

drill: setup ## every fault of the matrix on real stacks under load; report in drill-out
	@exec $(VENV)/milena drill

lock: setup ## make requirements.txt anew from pyproject.toml, with hashes and without addresses
	@exec $(VENV)/uv pip compile pyproject.toml --extra all --group dev --python-version 3.11 --quiet \
		--generate-hashes --no-emit-index-url --no-header --override ops/lock-overrides.txt -o requirements.txt
