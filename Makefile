# Everything runs in .venv, which `make setup` creates once from pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test test-slow lint fuzz docs docs-links bench golden clean

setup: $(STAMP)

# The stamp is newer than pyproject.toml once the environment matches it.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev --editable .
	touch $(STAMP)

demo: setup
	$(BIN)/driftbayes reproduce langevin -o demo --overwrite
	$(BIN)/driftbayes simulate langevin --gamma 1 --k 1 --particles 100 --steps 1000 --tau 0.1 --dim 2 --seed 1 -o demo/tracks.csv --overwrite
	$(BIN)/driftbayes compare demo/tracks.csv --tau 0.5
	$(BIN)/driftbayes scan demo/tracks.csv --taus 0.1:20:20log -o demo/scan.nc --figure demo/scan.png --overwrite
	$(BIN)/driftbayes report demo/scan.nc --data demo/tracks.csv -o demo/report.html --overwrite
	rm -rf demo/turbulence
	$(BIN)/driftbayes turbulence run --preset tiny -o demo/turbulence
	$(BIN)/driftbayes turbulence movie demo/turbulence -o demo/turbulence.gif --overwrite
	$(BIN)/driftbayes scan demo/turbulence --taus 0.1:10:12log -o demo/turbulence.nc --overwrite
	$(BIN)/driftbayes reproduce turbulence -o demo/paper --overwrite
	@echo "Figures of the paper: demo/figure1.png, demo/figure2.png and demo/paper/figure3.png to figure9.png. A small turbulent flow: demo/turbulence.gif."
	@echo "Start with the report: demo/report.html"

# Runs one process per core, and each test file in one process, so that its fixtures are made once.
# Further processes would only repeat compilations.
test: setup
	$(BIN)/python -m pytest -n auto --dist loadfile

# Runs the slow tests, and tests of models and inference with more examples and with arrays checked
# against their annotations.
test-slow: setup
	DRIFTBAYES_CHECK_ALL=1 $(BIN)/python -m pytest -n auto --dist loadfile -m slow
	DRIFTBAYES_CHECK_ALL=1 DRIFTBAYES_EXAMPLES=50 $(BIN)/python -m pytest -n auto --dist loadfile tests/models tests/likelihood tests/inference tests/io tests/test_priors.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Reads 10,000 damaged files and all hostile ones; about ten minutes.
fuzz: setup
	$(BIN)/python tools/fuzz.py

# Fails on any warning, broken link or resource from the network.
docs: setup
	$(BIN)/python tools/build_docs.py

# Checks links to other sites; needs a network.
docs-links: setup
	$(BIN)/python tools/build_docs.py --external

bench: setup
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python benchmarks/run.py

golden: setup
	$(BIN)/python tools/make_golden.py

clean:
	rm -rf $(VENV) demo site bench-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
