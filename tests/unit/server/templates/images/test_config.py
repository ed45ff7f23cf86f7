"""What is taken from an image's configuration, and that nonsense in it is an error and nothing worse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencomputer.server.templates.commands import BuildFailed
from opencomputer.server.templates.images.config import parse_config, read_config
from tests.support.oci_layout import Image, Layer, write_layout


def config(**fields: object) -> dict[str, object]:
    return {"architecture": "amd64", "config": fields}


def test_environment_folder_and_user_are_read(tmp_path: Path) -> None:
    """From the only image of a layout."""
    said = {"Env": ["PATH=/a:/b", "EMPTY=", "EQUALS=a=b"], "WorkingDir": "/srv/app", "User": "node:node"}
    write_layout(tmp_path, Image([Layer()], said))
    found = read_config(tmp_path)
    assert found.environment == {"PATH": "/a:/b", "EMPTY": "", "EQUALS": "a=b"}
    assert (found.workdir, found.user, found.architecture) == ("/srv/app", "node:node", "amd64")


@pytest.mark.parametrize("document", [{}, {"config": None}, config(), config(Env=None, WorkingDir=None)])
def test_an_image_may_say_nothing(document: dict[str, object]) -> None:
    """Then its sandboxes have no defaults."""
    found = parse_config(document)
    assert (dict(found.environment), found.workdir, found.user) == ({}, None, "")


def test_variables_that_belong_to_another_user_are_left_out() -> None:
    """The image's user has another home than `sandbox`."""
    found = parse_config(config(Env=["HOME=/root", "USER=root", "A=b", "NONSENSE", "=x"]))
    assert found.environment == {"A": "b"}


@pytest.mark.parametrize(
    ("said", "workdir"),
    [("", None), ("/", None), ("//", None), ("app", "/app"), ("/a/../../etc/.", "/etc"), ("/a/", "/a")],
)
def test_a_working_directory_is_an_absolute_path(said: str, workdir: str | None) -> None:
    """The root is what images have that never said anything."""
    assert parse_config(config(WorkingDir=said)).workdir == workdir


@pytest.mark.parametrize(
    "document",
    [
        [],
        "text",
        config(Env="A=b"),
        config(Env=[1]),
        config(Env={"A": "b"}),
        config(WorkingDir=["/"]),
        config(User=0),
        config(Env=["A=" + "x" * (1 << 21)]),
        config(Env=["A=\0"]),
        config(WorkingDir="/a\0b"),
        config(WorkingDir="/" + "x" * 5000),
    ],
)
def test_nonsense_is_an_error(tmp_path: Path, document: object) -> None:
    """Anybody may have written it."""
    write_layout(tmp_path, Image([Layer()]))
    index = json.loads((tmp_path / "index.json").read_text())
    manifest = tmp_path / "blobs/sha256" / index["manifests"][0]["digest"].removeprefix("sha256:")
    blob = json.loads(manifest.read_text())["config"]["digest"].removeprefix("sha256:")
    (tmp_path / "blobs/sha256" / blob).write_text(json.dumps(document))
    with pytest.raises(BuildFailed):
        read_config(tmp_path)


@pytest.mark.parametrize("digest", ["sha256:../../../etc/passwd", "sha512:ab", 5, None])
def test_a_digest_is_never_a_path(tmp_path: Path, digest: object) -> None:
    """Blobs are looked for in their folder only."""
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": digest}]}))
    with pytest.raises(BuildFailed):
        read_config(tmp_path)
