"""Write `opencomputer.blocking` anew from the asynchronous SDK; with `--check`, only say whether it is.

Run it after every change of what the SDK offers.
"""

from __future__ import annotations

import argparse
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

from blocking_facade.package import package_files

REPOSITORY = Path(__file__).resolve().parents[1]
BLOCKING = REPOSITORY / "src/opencomputer/blocking"
_BY_HAND = "support"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when something would change"
    )
    checking = parser.parse_args().check
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary)
        for name, text in package_files().items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text(text)
        _put_in_form(made)
        stale = _differences(made)
        if not checking:
            _replace(made, stale)
    if checking and stale:
        print("not current, run scripts/generate_blocking.py:", *stale, sep="\n  ")
        return 1
    return 0


def _put_in_form(folder: Path) -> None:
    common = ["--quiet", "--no-cache", "--config", str(REPOSITORY / "pyproject.toml"), str(folder)]
    fixes = ["--fix", "--unsafe-fixes", "--exit-zero", "--select", "F401,I,TC"]
    for command in (["check", *fixes], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, *common], check=True)


def _differences(made: Path) -> list[str]:
    """The files that are not there, not the same, or not made any more."""
    new = {str(file.relative_to(made)) for file in made.rglob("*.py")}
    old = {
        str(file.relative_to(BLOCKING))
        for file in BLOCKING.rglob("*.py")
        if file.relative_to(BLOCKING).parts[0] != _BY_HAND
    }
    _, changed, missing = filecmp.cmpfiles(made, BLOCKING, new, shallow=False)
    return sorted({*changed, *missing, *(old - new)})


def _replace(made: Path, names: list[str]) -> None:
    for name in names:
        if (made / name).exists():
            (BLOCKING / name).parent.mkdir(parents=True, exist_ok=True)
            (BLOCKING / name).write_bytes((made / name).read_bytes())
        else:
            (BLOCKING / name).unlink()
        print(name)


if __name__ == "__main__":
    sys.exit(main())
