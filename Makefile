# make up: everything, with a page to look at.  make test: everything that CI checks.  make help: the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export CUZK_SECRET_KEY ?= only-for-checks-and-tests

.PHONY: help install up test lint unit acceptance bench proto lock clean
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

install: ## the virtual environment with the pinned packages (those of CUDA where an NVIDIA GPU is), and `cuzk` in .venv/bin
	@$(PYTHON) prover/stack/install.py $(VENV) requirements.lock requirements-cuda.lock

up: install ## Postgres, prover and web on this machine; prints the page's URL; Ctrl-C stops all of it
	@env -u CUZK_SECRET_KEY $(BIN)/cuzk up

test: install lint unit ## everything that CI runs, browser tests included

lint: install ## style, types, rules of dependency, the shape of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python bench/shape.py

unit: install
	$(BIN)/python -m pytest -m "not acceptance" -n 2

acceptance: install ## the long ones: saturated runs, faults under load, the interoperability of every part
	$(BIN)/python -m pytest -m acceptance --timeout=3600

bench: install ## speed and memory of all four circuits (an hour), as ratios beside a peer where one is installed
	$(BIN)/python -m bench

proto: install ## generate the protobuf code again
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. prover/filecoin/proto/cuzk.proto

lock: ## pin again what pyproject.toml asks for
	$(PYTHON) -m venv build/lock && build/lock/bin/pip install -q -e '.[dev]'
	(echo '# Every package, pinned: what `make install` installs. Remade by `make lock` from pyproject.toml.'; \
	 build/lock/bin/pip freeze --exclude-editable) > requirements.lock
	build/lock/bin/pip install -q --dry-run --report build/cuda.json -e '.[cuda]'
	(echo '# What JAX needs beside requirements.lock to compute on NVIDIA GPUs (driver 525 or newer). Remade by `make lock`.'; \
	 $(PYTHON) -c 'import json; found = json.load(open("build/cuda.json"))["install"]; \
	 print("\n".join(sorted("{name}=={version}".format(**one["metadata"]) for one in found \
	 if one["metadata"]["name"] != "cuzk")))') > requirements-cuda.lock

clean: ## caches and build output; keeps var/ (keys, database)
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache staticfiles
