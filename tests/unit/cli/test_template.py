"""`oc template` on a folder of its own: images come in, builds are listed, and go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencomputer.server.templates import usage
from opencomputer.server.templates.needs import declare
from tests.support.image_tools import needs_image_tools
from tests.support.oci_layout import Image, Layer, write_layout
from tests.unit.cli.conftest import Oc

pytestmark = needs_image_tools


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "templates"
    monkeypatch.setenv("OPENCOMPUTER_TEMPLATES", str(folder))
    monkeypatch.setenv("OPENCOMPUTER_TRUST_HOST_CERTIFICATES", "0")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> str:
    write_layout(tmp_path / "web", Image([Layer().file("version", "1")], {"WorkingDir": "/srv"}))
    return f"oci:{tmp_path}/web:latest"


def listed(oc: Oc) -> list[dict[str, object]]:
    return json.loads(oc("template", "ls", "--local", "--json").stdout)


def test_an_image_becomes_the_current_template_of_its_name(oc: Oc, templates: Path, source: str) -> None:
    """What will not work in it is told, beside the result."""
    outcome = oc("template", "import", source)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("✓ web ")
    assert "note: no /bin/sh" in outcome.stderr
    (found,) = listed(oc)
    assert (found["name"], found["current"], found["workdir"]) == ("web", True, "/srv")
    assert source in oc("template", "ls", "--local").stdout


def test_json_holds_the_template_and_nothing_else(oc: Oc, templates: Path, source: str) -> None:
    """Progress and notes are on the other stream."""
    view = json.loads(oc("template", "import", source, "--name", "other", "--json").stdout)
    assert view["name"] == "other"
    assert view["image"]["source"] == source
    assert any("/bin/sh" in note for note in view["notes"])


def test_all_builds_are_listed_and_one_can_go(oc: Oc, templates: Path, source: str, tmp_path: Path) -> None:
    """The beginning of its hash is enough."""
    oc("template", "import", source)
    write_layout(tmp_path / "web", Image([Layer().file("version", "2")]))
    oc("template", "import", source)
    new, old = listed(oc)
    assert (new["current"], old["current"]) == (True, False)
    outcome = oc("template", "rm", "web", str(old["hash"])[:8])
    assert outcome.stdout == "✓ web removed (1 builds)\n"
    assert listed(oc) == [new]


def test_a_template_in_use_goes_by_force_only(
    oc: Oc, templates: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines would lose their files under them."""
    oc("template", "import", source)

    def two(_roots: object) -> int:
        return 2

    monkeypatch.setattr(usage, "machines_using", two)
    refused = oc("template", "rm", "web")
    assert refused.exit_code != 0
    assert "2 machines are running from it" in refused.stderr
    assert len(listed(oc)) == 1
    outcome = oc("template", "rm", "web", "--force")
    assert outcome.exit_code == 0
    assert "cannot be started any more" in outcome.stderr
    assert listed(oc) == []


def test_a_build_that_a_node_needs_goes_by_force_only(oc: Oc, templates: Path, source: str) -> None:
    """Sleeping sandboxes and snapshots stand on it, though nothing is running."""
    oc("template", "import", source)
    (found,) = listed(oc)
    declare(templates, templates.parent / "data", [str(found["hash"])])
    assert "sandboxes or snapshots were made from" in oc("template", "rm", "web").stderr
    assert len(listed(oc)) == 1
    assert oc("template", "rm", "web", "--force").exit_code == 0
    assert listed(oc) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["alpine:3.20"], "docker://alpine:3.20"),
        (["oci:/nowhere:x"], "skopeo"),
        (["oci:/nowhere/ubuntu"], "--name"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    oc: Oc, templates: Path, arguments: list[str], reason: str
) -> None:
    """The details, if there are any, come before it."""
    outcome = oc("template", "import", *arguments)
    assert outcome.exit_code != 0
    assert reason in outcome.stderr
    assert outcome.stderr.splitlines()[-1].startswith("Error: ")


def test_the_size_is_limited_in_gibibytes(oc: Oc, templates: Path, tmp_path: Path) -> None:
    """The option takes fractions."""
    write_layout(tmp_path / "big", Image([Layer().file("zeros", bytes(32 << 20))]))
    outcome = oc("template", "import", f"oci:{tmp_path}/big", "--max-size", "0.01")
    assert "more than 10 MiB" in outcome.stderr
    assert listed(oc) == []
