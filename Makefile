# Each target is one line; what it does is in the file it names.
.PHONY: setup run stop test check bench doctor clean

setup: ; @scripts/setup.sh --runsc=$(RUNSC)
run: setup ; @.venv/bin/python scripts/demo.py
stop: ; @.venv/bin/python scripts/demo.py --stop
test: setup ; @.venv/bin/python -m tests.clients.environments && .venv/bin/python scripts/run_tests.py
check: setup ; @scripts/check.sh
bench: setup ; @.venv/bin/python -m bench all
doctor: ; @.venv/bin/oc doctor
clean: ; @scripts/clean.sh
