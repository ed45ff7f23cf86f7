"""`make setup`: everything this machine needs. Standard library only, run by the system's own Python.

Safe to repeat: what is there already is left alone, and a complete machine is told so within two seconds.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

if sys.version_info < (3, 11):  # noqa: UP036 - the system's Python may well be older
    sys.exit("OpenComputer needs Python 3.11 or newer: Debian 12, Ubuntu 24.04 or newer bring it.")
sys.path[:1] = [str(CHECKOUT / "scripts"), str(CHECKOUT / "src")]

from machine_setup import environment, machine, packages, runsc, template  # noqa: E402 - found only now
from machine_setup.steps import Display, Step, run_steps  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="make setup", description="Set this machine up for OpenComputer.")
    parser.add_argument("--runsc", choices=("", "go"), default="", help="also build runsc as a Go module")
    parser.add_argument("--no-template", action="store_true", help="leave the base template out")
    options = parser.parse_args()
    steps = [
        Step("This machine", machine.check_machine),
        Step("System packages", packages.install_packages),
        Step("gVisor (runsc)", runsc.install_runsc),
        *([Step("gVisor from Go", runsc.build_with_go)] if options.runsc == "go" else []),
        Step("uv", environment.install_uv),
        Step("Python packages", partial(environment.make_environment, CHECKOUT)),
        *([] if options.no_template else [Step("Base template", partial(template.build_template, CHECKOUT))]),
        Step("Guest runtime", partial(template.build_runtime, CHECKOUT)),
    ]
    log = CHECKOUT / ".run/setup.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as file:
        done = run_steps(steps, Display(log=file))
    if not done:
        print(f"   All output: {log}")
    return 0 if done else 1


if __name__ == "__main__":
    raise SystemExit(main())
