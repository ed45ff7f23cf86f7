"""Images and snapshots from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fake_node import FakeNode
from tests.unit.cli.conftest import Oc

Golden = Callable[[str, str], None]

MANIFEST = {"base": "base", "steps": [{"type": "run", "args": {"commands": ["true"]}}]}
RESULTS = [
    "image build FILE",
    "image build FILE --name tools",
    "image list",
    "snapshot create tools FILE",
    "snapshot create tools FILE --no-wait",
    "snapshot list",
    "snapshot get known",
    "snapshot delete known",
    "create --snapshot known",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "image.json"
    made.write_text(json.dumps(MANIFEST))
    return made


@pytest.fixture
def furnished(node: FakeNode, stopped_clock: None) -> FakeNode:
    known = {"name": "known", "status": "ready", "id": "im-1", "contentHash": "c0ffee" * 10}
    times = {"createdAt": "2026-01-02T03:04:05Z", "lastUsedAt": "2026-01-03T03:04:05Z"}
    node.snapshots["known"] = {**known, "checkpointId": "cp-1", **times}
    node.snapshots["bad"] = {"name": "bad", "status": "failed", "error": "step 1 \x1b[31mfailed"}
    node.images.append({"id": "cp-1", "contentHash": "c0ffee" * 10, "createdAt": times["createdAt"]})
    node.build_log = ["Step 1/1 (run): true"]
    return node


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", RESULTS)
def test_results_are_printed_as_written_down(
    oc: Oc, furnished: FakeNode, golden: Golden, file: Path, command: str, form: str
) -> None:
    words = [str(file) if word == "FILE" else word for word in command.split()]
    outcome = oc(*words, *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0, outcome.stderr
    if form == "json":
        json.loads(outcome.stdout)
    name = command.replace(" ", "_").replace("--", "").replace("FILE_", "").replace("_FILE", "")
    golden(f"{name}.{form}", outcome.stdout)


@pytest.mark.parametrize("command", ["image list", "snapshot list"])
def test_empty_lists_say_so(oc: Oc, node: FakeNode, command: str) -> None:
    assert oc(*command.split()).stdout in ("No images.\n", "No snapshots.\n")
    assert oc(*command.split(), "--json").stdout == "[]\n"


@pytest.mark.parametrize("alias", ["template", "templates", "snapshots"])
def test_templates_of_a_server_are_its_snapshots(oc: Oc, furnished: FakeNode, alias: str) -> None:
    for words in (["list"], ["ls"], ["get", "known"], ["list", "--json"]):
        assert oc(alias, *words).stdout == oc("snapshot", *words).stdout
    assert oc(alias, "delete", "known").exit_code == 0
    assert "known" not in furnished.snapshots


@pytest.mark.parametrize("command", ["image", "image build", "snapshot", "snapshot create"])
def test_help_is_as_written_down(oc: Oc, golden: Golden, command: str) -> None:
    golden(f"help_{command.replace(' ', '_')}", oc("help", *command.split()).stdout)


def test_the_build_is_told_on_standard_error(oc: Oc, furnished: FakeNode, file: Path) -> None:
    outcome = oc("image", "build", str(file), "--json")
    assert outcome.stderr == "Step 1/1 (run): true\n"
    assert furnished.requests("POST", "/images")[0].body == {"image": MANIFEST}


def test_a_python_file_defines_an_image(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    recipe = tmp_path / "recipe.py"
    recipe.write_text(
        "from opencomputer import Image\nfrom pathlib import Path\n"
        'image = Image.base().add_local_file(Path(__file__).parent / "data", "/data")\n'
    )
    assert oc("snapshot", "create", "tools", str(recipe)).exit_code == 0
    body = node.requests("POST", "/snapshots")[0].body
    assert body == {
        "name": "tools",
        "image": {
            "base": "base",
            "steps": [
                {"type": "add_file", "args": {"path": "/data", "content": "eA==", "encoding": "base64"}}
            ],
        },
    }


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.json", None, "No such file"),
        ("missing.py", None, "no such file"),
        ("broken.json", "{", "no valid JSON"),
        ("list.json", "[]", "must be an object"),
        ("empty.py", "", "must define `image`"),
        ("other.py", "image = 5", "must define `image`"),
    ],
)
def test_what_is_no_recipe_is_explained(
    oc: Oc, node: FakeNode, tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    outcome = oc("image", "build", str(tmp_path / name))
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("Error: ")
    assert words in outcome.stderr
    assert node.seen == []


def test_a_failing_build_is_a_failure(oc: Oc, node: FakeNode, file: Path) -> None:
    node.build_error = "step 1 (run) failed (exit 2): \x1b[31mno"
    outcome = oc("image", "build", str(file))
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == "Error: Build failed: step 1 (run) failed (exit 2):  [31mno\n"


def test_refusals_have_the_codes_of_their_status(oc: Oc, furnished: FakeNode, file: Path) -> None:
    assert oc("snapshot", "get", "no-such").exit_code == 3
    assert oc("snapshot", "create", "known", str(file)).exit_code == 4
