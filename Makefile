# Needs Python 3.11 or newer and make, nothing else. Everything is installed into .venv in this folder.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
METADATA := pyproject.toml core/pyproject.toml plugins/cpu/pyproject.toml plugins/opencl/pyproject.toml plugins/cuda/pyproject.toml plugins/amd/pyproject.toml plugins/metal/pyproject.toml plugins/mpi/pyproject.toml $(wildcard plugins/cpu/setup.py plugins/cpu/*.py plugins/cpu/src/tinygraft_cpu/*.c plugins/cpu/src/tinygraft_cpu/*.h)

EXAMPLE := tests/third_party/tinygraft-example

JOBS ?= 2

# where nothing may write bytecode, each of the thousand processes that tests start compiles tinygraft anew: 2.4 s
unexport PYTHONDONTWRITEBYTECODE

PEERS ?= torch,jax,tinygrad,onnxruntime
BENCH ?= --short

SECONDS ?= 1200
FUZZ ?= --save out/fuzz
PROGRAMS = tests/pipeline/test_pipeline_stores.py tests/pipeline/test_pipeline_views_random.py tests/training/test_training_shard.py tests/training/test_training_digits.py::test_what_it_leaves_behind # whole ones among the slow tests
XDIST = -n $(JOBS) --dist worksteal --capture=sys --durations=25 # of a process that ends, conftest.py shows the standard error

.PHONY: help train test test-slow long validate fuzz check bench site pictures gallery clean

help:  ## what the targets do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

train: $(VENV)/.train  ## train a convolutional network on handwritten digits, on the CPU
	$(BIN)/python examples/train_digits.py

test: $(VENV)/.test  ## run the tests but the slow ones, in JOBS=2 processes (15 minutes)
	SPEC=2 $(BIN)/python -m pytest -m "not slow and not long" $(XDIST)

# as users have it: without checks of the graph, and with the shortcuts that compare no rules
test-slow: $(VENV)/.test  ## run the slow tests, in JOBS=2 processes (15 minutes)
	SPEC=0 $(BIN)/python -m pytest -m "slow and not long" $(XDIST)

long: $(VENV)/.test  ## run what takes longer: validate and fuzz side by side, then the tests marked long, and all cases of those that the gate samples (90 minutes)
	$(MAKE) -j2 --output-sync=target validate fuzz
	SPEC=2 $(BIN)/python -m pytest -m long $(XDIST)

validate: $(VENV)/.test  ## run whole programs and training with every schedule compared with NumPy (8 minutes)
	VALIDATE=1 SPEC=2 $(BIN)/python -m pytest -m "not slow" tests/pipeline tests/training
	VALIDATE=1 SPEC=2 $(BIN)/python -m pytest -m "slow and not long" $(PROGRAMS)

check: $(VENV)/.check  ## lint, formatting and types
	@failed=0; for what in "ruff check ." "ruff format --check ." "mypy core/src/tinygraft plugins/cpu/src/tinygraft_cpu plugins/opencl/src/tinygraft_opencl plugins/cuda/src/tinygraft_cuda plugins/amd/src/tinygraft_amd plugins/metal/src/tinygraft_metal plugins/mpi/src/tinygraft_mpi benchmarks tests/packaging/types_seen.py" \
	    "mypy --config-file $(EXAMPLE)/pyproject.toml $(EXAMPLE)/src"; do \
	    echo "$$what"; $(BIN)/$$what || failed=1; done; exit $$failed

bench: $(VENV)/.train  ## speed beside other libraries that are installed (5 minutes): PEERS=torch or none, BENCH=--quick (1 minute)
	$(BIN)/python -m benchmarks --peers $(PEERS) --json out/benchmarks.json --picture out/benchmarks.png $(BENCH)

fuzz: $(VENV)/.test  ## run random programs for SECONDS=1200 with a fresh seed, FUZZ="--seed 5 --devices CPU" to choose
	SPEC=2 $(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS) $(FUZZ)
	$(BIN)/python tests/fuzz/run_networks.py --seconds $(SECONDS)

site: $(VENV)/.test  ## build the documentation as a site: out/site/index.html
	$(BIN)/python -m zensical build

pictures: $(VENV)/.test  ## draw the pictures of docs/ anew: graphs, charts, VIZ in Chromium, benchmarks.json
	$(BIN)/python docs/write_drawings.py
	$(BIN)/python docs/write_charts.py
	$(BIN)/python docs/write_screenshots.py
	$(BIN)/python -m benchmarks --stored docs/benchmarks.json --picture docs/pictures/benchmarks.png

gallery: $(VENV)/.test  ## run every script of examples/ and write docs/gallery.md (minutes to hours)
	$(BIN)/python docs/write_gallery.py --run

clean:  ## remove the environment
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tinygraft needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

# One stamp for each set of packages: made anew when the metadata of a package changes.
$(VENV)/.train: $(METADATA) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group train -e core -e plugins/cpu
	@touch $@

$(VENV)/.test: $(METADATA) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group test -e core -e plugins/cpu -e 'plugins/opencl[pocl,intel]' -e 'plugins/cuda[headers,sass]' -e 'plugins/amd[zig]' -e plugins/metal -e 'plugins/mpi[mpich]'
	@touch $@ $(VENV)/.train

# Both at once: the extension of the CPU plugin is compiled once.
$(VENV)/.all: $(METADATA) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group test --group check -e core -e plugins/cpu -e 'plugins/opencl[pocl,intel]' -e 'plugins/cuda[headers,sass]' -e 'plugins/amd[zig]' -e plugins/metal -e 'plugins/mpi[mpich]'
	@touch $@ $(VENV)/.train $(VENV)/.test $(VENV)/.check

$(VENV)/.check: $(METADATA) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group check -e core -e plugins/cpu -e plugins/opencl -e plugins/cuda -e plugins/amd -e plugins/metal -e plugins/mpi
	@touch $@
