# `make demo` and `make test` need nothing but Python 3.11 or newer (PYTHON=python3.12, say).
PYTHON ?= python3
VENV ?= .venv
RUN ?= run
BIN := $(abspath $(VENV))/bin
STAGES := preprocess/preprocess.py train/train.py infer/infer.py

.PHONY: demo test lint bench torture scripts clean

demo: scripts
	PATH=$(BIN):$$PATH; preprocess.py --run $(RUN) && train.py --gpu 0 --run $(RUN) && infer.py --run $(RUN)

# A file's tests stay together, since they share what they have prepared.
test: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An hour on two cores and 10 GB of memory; BOOKS=folder adds a larger dataset of titles.
bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/bench_parsing.py
	$(BIN)/python benchmarks/bench_records.py
	$(BIN)/python benchmarks/bench_retrieval.py
	$(BIN)/python benchmarks/bench_sharding.py
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_planted.py
	$(BIN)/python benchmarks/bench_pipeline.py $(if $(BOOKS),--books $(BOOKS))
	$(BIN)/python benchmarks/render.py

# Every stage killed at hundreds of points and compared with an unbroken run: half an hour.
torture: $(VENV)/installed
	$(BIN)/python benchmarks/torture.py

# The virtual environment, updated when the project's requirements change.
$(VENV)/installed: setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

# An editable install copies the stage programs; this copies them again after a change. As by pip,
# they run with the environment's Python, whether it is activated or not.
scripts: $(VENV)/installed
	install $(STAGES) $(BIN)
	sed -i '1s|.*|#!$(BIN)/python|' $(addprefix $(BIN)/,$(notdir $(STAGES)))

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis
