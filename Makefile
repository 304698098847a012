# `make run` starts everything, `make test` tests everything. Both set up what is missing first.
.DEFAULT_GOAL := help
.PHONY: help setup run test check bench drill test-vllm

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

check: setup ## format, lint, types, layers, fast tests
	@$(VENV)/ruff format --check .
	@$(VENV)/ruff check .
	@$(VENV)/mypy
	@$(VENV)/lint-imports
	@exec $(VENV)/pytest -q -m "not real"

bench: setup ## Milena's share of the time to first token, per hop
	@exec $(VENV)/milena bench

drill: setup ## faults under load, with a report
	@exec $(VENV)/milena drill

test-vllm: setup ## the engine contract on real vLLM, in an environment of its own
	@exec $(VENV)/pytest -m vllm
