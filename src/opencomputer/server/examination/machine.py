"""Does gVisor start a machine here, save its memory, and go on from it?"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from opencomputer.server.examination.check import Check
from opencomputer.server.host.runsc_build import RunscMissing, find_runsc
from opencomputer.server.host.subprocesses import CommandTimedOut, run

_DEADLINE_SECONDS = 60.0
_WORDS = 300
# Started, saved and ended in a process namespace of its own, so that whatever hangs ends with it.
_SCRIPT = """set -e
runsc="$1"; bundle="$2"; state="$3"; image="$4"
common="--root=$state --network=none --ignore-cgroups --overlay2=none"
trap '"$runsc" $common delete --force probe >/dev/null 2>&1 || true' EXIT
"$runsc" $common run --bundle "$bundle" --detach probe </dev/null >/dev/null
"$runsc" $common checkpoint --image-path "$image" probe
"""
_BUNDLE = {
    "ociVersion": "1.0.0",
    "process": {
        "user": {"uid": 0, "gid": 0},
        "args": ["/bin/sleep", "60"],
        "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
        "cwd": "/",
    },
    "root": {"path": "/", "readonly": True},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"namespaces": [{"type": each} for each in ("pid", "mount", "ipc", "uts", "network")]},
}


def check_machine(explicit: str | None) -> Check:
    """Takes some seconds. Leaves nothing behind."""
    try:
        build = find_runsc(explicit)
    except RunscMissing as error:
        return judge_machine(str(error))
    return judge_machine(try_checkpoint(build.path))


def judge_machine(problem: str | None) -> Check:
    if problem is None:
        return Check("machine", "ok", "gVisor starts a machine here and saves its memory.")
    return Check(
        "machine",
        "fail",
        f"gVisor does not start a machine and save its memory: {problem}",
        "Try another build: `make setup RUNSC=go`, or the official one; then `oc doctor --deep` again.",
    )


def try_checkpoint(runsc: Path) -> str | None:
    """None when it worked, else what was said."""
    with tempfile.TemporaryDirectory(prefix="opencomputer-probe-") as name:
        folder = Path(name)
        for each in ("bundle", "state", "image"):
            (folder / each).mkdir()
        (folder / "bundle/config.json").write_text(json.dumps(_BUNDLE))
        places = [str(folder / each) for each in ("bundle", "state", "image")]
        shell = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _SCRIPT, "sh"]
        try:
            done = run([*shell, str(runsc), *places], deadline_seconds=_DEADLINE_SECONDS)
        except (OSError, CommandTimedOut) as error:
            return str(error)
        if done.exit_code != 0:
            return " ".join(done.output.split())[-_WORDS:] or f"exit code {done.exit_code}"
        return None if any((folder / "image").iterdir()) else "no image was written"
