# make demo, make test: set everything up in .venv (nothing outside this folder changes), then run. Needs Linux, g++,
# python3 with venv, and a package index.
#
# PYTHON     the interpreter .venv is made from, 3.10 or newer
# TORCH      what pip is asked for as torch; any 2.10 or newer will do
# PIP_FLAGS  added to pip install. The torch of PyPI for x86-64 brings CUDA libraries of several GB; a CPU build does as
#            well: make test PIP_FLAGS='--extra-index-url URL', URL an index of CPU builds
# VENV_FLAGS added to python -m venv. To use the torch that PYTHON has, as in a CANN image:
#            make test VENV_FLAGS=--system-site-packages TORCH='torch>=2.10'
# CXX        the C++17 compiler
PYTHON ?= python3
TORCH ?= torch==2.13.0
PIP_FLAGS ?=
VENV_FLAGS ?=

BIN := .venv/bin
READY := .venv/ready
LINES := $(wildcard ops kernels_ascendc metadata twin tests tools examples benchmarks)
CODE = find $(1) -type f \( -name '*.py' -o -name '*.h' -o -name '*.cpp' -o -name '*.asc' -o -name '*.aicpu' \)
CXX_FILES = $(shell $(call CODE,kernels_ascendc metadata twin tests tools) | grep -v '\.py$$')

.PHONY: demo test test-all build lint format typecheck size clean

demo: build
	$(BIN)/python examples/demo.py

test: build lint
	$(BIN)/python -m pytest -q

# Also what takes many minutes: all public cases.
test-all: build lint
	$(BIN)/python -m pytest -q -m 'full or not full'

# The package, editable, and its libraries where a source is newer than they are.
build: $(READY)
	$(BIN)/python setup.py -q build_twin --inplace

$(READY): Makefile pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV_FLAGS) .venv
	$(BIN)/pip install $(PIP_FLAGS) '$(TORCH)' numpy 'setuptools>=77'
	$(BIN)/pip install $(PIP_FLAGS) --no-build-isolation -e '.[test,lint]'
	touch $@

lint: $(READY)
	$(BIN)/ruff check -q
	$(BIN)/ruff format -q --check
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	$(BIN)/python tools/lint_vector.py

format: $(READY)
	$(BIN)/ruff check -q --fix --exit-zero
	$(BIN)/ruff format -q
	$(BIN)/clang-format -i $(CXX_FILES)

# The kernel against the real Ascend C headers, with clang 19: make typecheck ASC_DEVKIT=PATH, an asc-devkit checkout or
# a CANN installation.
typecheck:
	@test -n "$(ASC_DEVKIT)" || { echo "make typecheck ASC_DEVKIT=PATH: name an asc-devkit checkout or a CANN installation"; exit 2; }
	$(PYTHON) tools/typecheck/typecheck.py --headers "$(ASC_DEVKIT)"

# Lines of code per folder.
size:
	@for folder in $(LINES); do printf '%-16s %6d\n' $$folder $$($(call CODE,$$folder) -exec cat {} + | wc -l); done

clean:
	rm -rf .venv build dist *.egg-info ops/libqbsa_twin_*.so .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
