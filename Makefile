# `make demo` and `make test` need nothing but Python 3.11 or newer (as PYTHON) and a network.
PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
RUN ?= run

.PHONY: demo test lint clean

# The virtual environment, made anew when the project's requirements change.
$(VENV)/installed: setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

# An editable install copies the stage programs, so they are put there again each time.
demo: $(VENV)/installed
	install preprocess/preprocess.py train/train.py infer/infer.py $(BIN)
	PATH=$(BIN):$$PATH && preprocess.py --run $(RUN) && train.py --gpu 0 --run $(RUN) && infer.py --run $(RUN)

test: $(VENV)/installed
	$(BIN)/python -m pytest

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis
