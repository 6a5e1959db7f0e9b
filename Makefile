# Needs make and Python 3.11 or newer; everything else is put into .venv.
MINUTES ?= 30
ARGS ?=
RUN := .venv/bin/python
export PYTHONUNBUFFERED := 1
# Without compiled modules every process that starts Millpond reads and compiles all of its source: seconds each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-deep lint format bench soak doctor java clean

help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/ready java ## real flights, out of order, through standing window queries (ARGS="--speed 6")
	$(RUN) -m millpond demo --pond pond-demo $(ARGS)

test: lint java ## ruff, mypy and every test but the soak
	$(RUN) -m pytest -n auto --dist loadgroup $(ARGS)

# All of it fails with fewer than 10,000 cases of any kind of window, and says how many there were.
test-deep: lint java ## the same with 10,000 and more random cases for every kind of window, and repetitions (marked deep)
	$(if $(strip $(ARGS)),,MILLPOND_CASES_OF_A_KIND=10000) HYPOTHESIS_PROFILE=deep \
		$(RUN) -m pytest -n auto --dist loadgroup $(ARGS)

lint: .venv/dev ## ruff check, ruff format --check, mypy --strict
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: .venv/dev ## let ruff mend what it can
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: .venv/dev java ## against native Structured Streaming and against DuckDB over the files
	$(RUN) -m bench.windows $(ARGS)

soak: .venv/dev java ## steady load with queries that come and go (MINUTES=30)
	$(RUN) -m bench.soak --minutes $(MINUTES) $(ARGS)

doctor: .venv/ready ## what this machine has, and how to mend what is missing
	$(RUN) -m millpond doctor

java:
	@sh scripts/prepare.sh java

# What Millpond needs to run; tests, benchmarks and linters need the tools in .venv/dev, too, which are much larger.
.venv/ready: pyproject.toml constraints.txt scripts/prepare.sh
	@sh scripts/prepare.sh venv

.venv/dev: .venv/ready
	@sh scripts/prepare.sh dev

clean: ## remove .venv, caches and the demo's pond
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench build dist pond-demo spark-warehouse artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
