# Everything starts here: `make run` on a bare machine needs Python 3.11 or newer and nothing else.

HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=
export HOST PORT

PY = .venv/bin/python
RUNTIME = @sh scripts/setup requirements.lock
DEV = @sh scripts/setup requirements-dev.lock

.DEFAULT_GOAL := help
.PHONY: help run test demo bench lint format lock

help:
	@echo "make run    serve on http://$$HOST:$$PORT (HOST=, PORT= change it)"
	@echo "make test   the whole test suite (ARGS= for pytest)"
	@echo "make demo   lively traffic against the running server, until Ctrl-C"
	@echo "make bench  the benchmark"
	@echo "make lint   ruff and mypy;  make format  lets ruff rewrite"
	@echo "make lock   pins the requirements anew (needs uv)"

run:
	$(RUNTIME)
	@exec $(PY) manage.py serve --host "$$HOST" --port "$$PORT"

test:
	$(DEV)
	@exec $(PY) -m pytest $(ARGS)

demo:
	$(RUNTIME)
	@RELAY_URL="$${RELAY_URL:-http://$$HOST:$$PORT}" exec $(PY) -m bench.demo $(ARGS)

bench:
	$(DEV)
	@exec $(PY) -m bench $(ARGS)

lint:
	$(DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format:
	$(DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# One lock for every platform and Python from 3.11 on; it names no registry, pip uses the machine's own.
lock:
	@command -v uv >/dev/null || { echo "token-relay: uv is needed for this. Install it: pip install uv" >&2; exit 1; }
	uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url pyproject.toml --group assets -o requirements.lock
	uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
