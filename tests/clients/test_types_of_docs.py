"""The TypeScript of the documentation fits the types of the published SDK."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.clients.environments import NEWEST_NODE, node, node_modules, type_checker_modules
from tests.docs.blocks import blocks, pages

_OPTIONS = (
    *("--noEmit", "--strict", "--skipLibCheck"),
    *("--module", "nodenext", "--target", "es2023", "--lib", "es2023,dom,esnext.disposable"),
    *("--types", "node"),
)
_SECONDS = 100


def test_the_examples_are_well_typed(tmp_path: Path) -> None:
    """A page is one module, as its reader takes it."""
    (tmp_path / "node_modules").symlink_to(node_modules())
    for page in pages():
        sources = [block.source for block in blocks(page) if block.language == "ts" and block.runs]
        if sources:
            (tmp_path / f"{Path(page).stem}.mts").write_text("\n".join(sources))
    modules = sorted(each.name for each in tmp_path.glob("*.mts"))
    assert modules
    checker = type_checker_modules()
    ran = subprocess.run(
        [
            str(node(NEWEST_NODE)),
            str(checker / "typescript/lib/tsc.js"),
            *_OPTIONS,
            *("--typeRoots", str(checker / "@types")),
            *modules,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
