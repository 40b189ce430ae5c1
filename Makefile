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
DOCS_READY := .venv/docs-ready
LINES := $(wildcard ops kernels_ascendc metadata twin tests tools examples benchmarks)
CODE = find $(1) -type f \( -name '*.py' -o -name '*.h' -o -name '*.cpp' -o -name '*.asc' -o -name '*.aicpu' \)
CXX_FILES = $(shell $(call CODE,ops kernels_ascendc metadata twin tests tools benchmarks) | grep -v '\.py$$')

# The NPU path without an NPU: the real torch_npu on the virtual device of twin/device.
NPU_BIN := .venv-npu/bin
NPU_READY := .venv-npu/ready
NPU_TORCH ?= torch==2.13.0 torch_npu==2.13.0
NEXT_TORCH_NPU ?= torch_npu==2.14.0
CANN := $(CURDIR)/build/virtual_cann
ON_NPU = env LD_LIBRARY_PATH=$(CANN)/lib64 TORCH_DEVICE_BACKEND_AUTOLOAD=0 QBSA_TEST_DEVICE=npu:0

.PHONY: demo test test-all test-npu sanitize build lint format docs dist typecheck size clean

demo: build
	$(BIN)/python examples/demo.py

test: build lint
	$(BIN)/python -m pytest -q

# Also what takes many minutes: all public cases.
test-all: build lint
	$(BIN)/python -m pytest -q -m 'full or not full'

# Twin, kernel and scheduler under AddressSanitizer and UndefinedBehaviorSanitizer (of g++): the tests of the operators
# and FUZZ_CALLS random calls; then calls from several threads under ThreadSanitizer.
FUZZ_CALLS ?= 10000
SANITIZED := build/sanitized
SANITIZED_TESTS := $(addprefix tests/test_,layouts.py ops.py splits.py torch.py value_check.py values.py)
SANITIZED_PYTHON = LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libubsan.so) \
    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1 \
    PYTHONPATH=$(SANITIZED) $(BIN)/python
TSAN_FLAGS := -std=c++17 -O1 -g1 -Wall -Wextra -ffp-contract=off -pthread -fsanitize=thread -DQBSA_TWIN_CHECKED=0

sanitize: build
	QBSA_SANITIZE=1 QBSA_BUILD=cpu QBSA_ISA=$$($(BIN)/python -c 'from qbsa import isa; print(isa.checked())') \
	    $(BIN)/python setup.py -q build_py --build-lib $(SANITIZED) build_twin --build-lib $(SANITIZED)
	$(SANITIZED_PYTHON) -m pytest -q -m 'not slow and not full' $(SANITIZED_TESTS) \
	    --deselect tests/test_ops.py::test_every_instruction_set_gives_the_same_bits \
	    --deselect tests/test_ops.py::test_newest_instruction_set_is_taken
	$(SANITIZED_PYTHON) tests/fuzz.py $(FUZZ_CALLS)
	$(CXX) $(TSAN_FLAGS) -Itwin -Ikernels_ascendc tests/threads.cpp twin/twin.cpp -o $(SANITIZED)/threads
	$(SANITIZED)/threads

# In .venv-npu: build and install the package as on a machine with CANN, its compiler replaced by twin/device/bisheng.py;
# then the operator tests on npu:0, and order and failures with each setting of torch_npu's task queue.
test-npu: $(NPU_READY)
	rm -rf build/npu
	$(NPU_BIN)/python twin/device/build.py $(CANN)
	env ASCEND_HOME_PATH=$(CANN) QBSA_BUILD=npu QBSA_ISA=$$($(PYTHON) ops/isa.py) \
		$(NPU_BIN)/pip install -q --no-build-isolation --no-deps --force-reinstall .
	$(ON_NPU) $(NPU_BIN)/python -m qbsa env
	$(ON_NPU) QBSA_TORCH_NPU_WHEELS=build/wheels $(NPU_BIN)/python -m pytest -q tests/npu tests/test_attention.py tests/test_selfcheck.py \
		-k 'not hostile and not race and not twin_agree and not host_threads'
	$(ON_NPU) $(NPU_BIN)/python examples/decoder_layer.py --attention-device npu:0 --tokens 2048
	$(ON_NPU) $(NPU_BIN)/python -m qbsa bundle verify
	for queue in 0 2; do \
		$(ON_NPU) TASK_QUEUE_ENABLE=$$queue $(NPU_BIN)/python -m pytest -q tests/npu/test_order.py || exit 1; \
	done

# Without the next torch_npu, whose symbols alone are looked at, one test less is run.
$(NPU_READY): Makefile
	$(PYTHON) -m venv .venv-npu
	$(NPU_BIN)/pip install $(PIP_FLAGS) $(NPU_TORCH) numpy 'setuptools>=77' 'pytest>=8' hypothesis
	-$(NPU_BIN)/pip download -q $(PIP_FLAGS) --no-deps -d build/wheels $(NEXT_TORCH_NPU)
	touch $@

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
	$(BIN)/mypy --no-error-summary
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	$(BIN)/python tools/lint_vector.py

format: $(READY)
	$(BIN)/ruff check -q --fix --exit-zero
	$(BIN)/ruff format -q
	$(BIN)/clang-format -i $(CXX_FILES)

# The documentation as a site, build/site/index.html, readable offline; a broken link or reference fails.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

$(DOCS_READY): $(READY)
	$(BIN)/pip install -q $(PIP_FLAGS) --no-build-isolation -e '.[docs]'
	touch $@

# Mutation proof: every flag, barrier, credit, buffer distance and stride of the kernel dropped or changed.
.PHONY: flags
flags: build
	$(BIN)/python tests/flags.py

# The kernel against the real Ascend C headers, with clang 19: make typecheck ASC_DEVKIT=PATH, an asc-devkit checkout or
# a CANN installation.
typecheck:
	@test -n "$(ASC_DEVKIT)" || { echo "make typecheck ASC_DEVKIT=PATH: name an asc-devkit checkout or a CANN installation"; exit 2; }
	$(PYTHON) tools/typecheck/typecheck.py --headers "$(ASC_DEVKIT)"

# Wheel and source distribution in dist/, as an index takes them; tests/test_packaging.py looks at their contents.
dist: build
	$(BIN)/pip install -q $(PIP_FLAGS) --no-build-isolation -e '.[release]'
	rm -rf dist
	$(BIN)/python -m build -n --sdist --wheel
	$(BIN)/twine check --strict dist/*

# Lines of code per folder, and of them what is used with CANN or torch_npu alone.
NPU_ONLY := $(addprefix ops/,npu.py npu_binding.cpp) kernels_ascendc/launch.asc metadata/launch.aicpu tools/build_npu.py
size:
	@for folder in $(LINES); do printf '%-16s %6d\n' $$folder $$($(call CODE,$$folder) -exec cat {} + | wc -l); done
	@printf '%-16s %6d\n' 'NPU only' $$(cat $(NPU_ONLY) | wc -l)

clean:
	rm -rf .venv .venv-npu build dist *.egg-info ops/*.so ops/_build.json .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
