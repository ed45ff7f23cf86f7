"""How brains are started in their machines."""

from __future__ import annotations

from opencomputer.server.contracts.runtimes import BrainProgram

MACHINE_PYTHON = "/.oc/bin/python3"
MACHINE_PROGRAMS = "/.oc/lib/opencomputer_inside"
SDK_PYTHON = "/opt/opencomputer/agent/bin/python"

# The programs' folder is a package there, and given here rather than in the environment: whatever the engine
# starts would inherit that.
_START = (
    "import runpy, sys; folder, _, package = sys.argv.pop(1).rpartition('/'); "
    "sys.path.insert(0, folder); "
    "runpy.run_module(package + '.brains', run_name='__main__', alter_sys=True)"
)


def brain_program(python: str, engine: str, *, programs: str = MACHINE_PROGRAMS) -> BrainProgram:
    """The brain server with this engine, on this interpreter. `programs`: where our own programs are."""
    return BrainProgram(argv=(python, "-P", "-c", _START, programs, engine))
