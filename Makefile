# Each target is one line; what it does is in the file it names.
# Where it is set, each of the many processes of a test run compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: setup run stop test check bench docs doctor clean

setup: ; @scripts/setup.sh --runsc=$(RUNSC)
run: setup ; @.venv/bin/python scripts/demo.py
stop: ; @.venv/bin/python scripts/demo.py --stop
test: setup ; @.venv/bin/python -m tests.clients.environments && .venv/bin/python scripts/run_tests.py
check: setup ; @scripts/check.sh
bench: setup ; @.venv/bin/python -m bench all
docs: setup ; @NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
doctor: ; @.venv/bin/oc doctor
clean: ; @scripts/clean.sh
