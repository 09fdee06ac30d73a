# Each goal does its own set-up in .venv (see .ci/setup) and needs nothing but Python 3.11 or later, make and git.
# PYTHON=/path/to/python3 names the interpreter; ARGS="..." is handed on, as in: make test ARGS="-k plan"

PY := .venv/bin/python
ARGS ?=

# Packages are installed without their compiled modules, which Python writes when it first imports them. Where it is told
# not to, every process compiles its imports anew: a first resilient placement took 6.7 s of processor time, not 1.9.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test campaign campaign-killed campaign-live lint style written notebooks lab bench pins sbom clean

help:
	@echo "make demo     compose and run the top-k traffic query on 8 local peers, and check its rows"
	@echo "make test     style, types and the whole test suite"
	@echo "make campaign all schedules of the campaigns, of which the suite runs a fixed share"
	@echo "make campaign-killed  kills all processes of a durable cluster again and again; see docs/faults.md"
	@echo "make campaign-live  breaks a network of real peers again and again (Linux, root); see docs/faults.md"
	@echo "make lint     style and types only"
	@echo "make written  generate the tables of docs/plans.md and the methods of streams from the declarations of operators"
	@echo "make notebooks  run the notebooks, and store their outputs anew; ARGS=08_simulation names one"
	@echo "make lab      JupyterLab on 127.0.0.1, at the quickstart"
	@echo "make bench    every measurement, also of the systems compared"
	@echo "make pins     hashes of all that is installed anew; with ARGS=--upgrade of the newest versions"
	@echo "make sbom     build/sbom.json, a bill of materials of what an installation has (CycloneDX)"
	@echo "make clean    remove .venv, caches and builds"

demo:
	@.ci/setup
	@.venv/bin/synergy demo $(ARGS)

lint: style
	@$(PY) -m mypy

style:
	@.ci/setup test
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check .

# Each process of a test imports the package, and compiles it anew where nothing may keep what was compiled
test campaign: export PYTHONDONTWRITEBYTECODE =

# Types are checked beside the tests: on a fresh clone one core would do so for most of a minute while the others wait.
# What is wrong is said at the end, where it is seen, and fails the run.
test: style
	@types=.mypy_cache/said; mkdir -p .mypy_cache; $(PY) -m mypy >$$types 2>&1 & checked=$$!; \
		trap 'kill $$checked 2>/dev/null' INT TERM; \
		$(PY) -m pytest --numprocesses auto $(ARGS); tests=$$?; \
		wait $$checked; typed=$$?; cat $$types; exit $$((tests ? tests : typed))

campaign:
	@.ci/setup test
	@SYNERGY_SCHEDULES=all $(PY) -m pytest --numprocesses auto $$(grep -lr --include="test_*.py" "^from tests.campaigns import" tests) $(ARGS)

campaign-killed:
	@.ci/setup test
	@nice -n 5 $(PY) -m tests.killed_campaign $(ARGS)

campaign-live:
	@.ci/setup test
	@nice -n 5 $(PY) -m tests.live_campaign $(ARGS)

written:
	@.ci/setup test
	@$(PY) -m docs.generate

notebooks:
	@.ci/setup test
	@$(PY) -m tests.renewed_notebooks $(ARGS)

lab:
	@.ci/setup lab
	@JUPYTER_CONFIG_PATH=$(CURDIR)/.ci/jupyter $(PY) -m jupyterlab --ip=127.0.0.1 \
		$(if $(filter 0,$(shell id -u)),--allow-root) --ServerApp.root_dir=notebooks \
		--LabApp.default_url=/lab/tree/01_quickstart.ipynb $(ARGS)

bench:
	@.ci/setup experiments
	@.venv/bin/synergy bench all $(ARGS)

pins:
	@.ci/setup uv
	@$(PY) -m supply_chain.pins $(ARGS)

sbom:
	@.ci/setup test
	@$(PY) -m supply_chain.materials $(ARGS)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	rm -rf synergy_nb/widgets/static synergy_nb/widgets/js/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
