"""`Image`: the recipe, and the key it is cached by."""

from __future__ import annotations

import base64
import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from opencomputer import Image
from opencomputer.server.domain.image import parse_manifest


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_each_builder_adds_its_step() -> None:
    image = (
        Image.base()
        .apt_install(["curl"])
        .pip_install(["rich"])
        .run_commands("a", "b")
        .env({"A": "1"})
        .workdir("/app")
        .add_file("/etc/motd", "hé")
        .add_file("/usr/bin/x", b"\0", mode="755")
    )
    assert image.to_dict() == {
        "base": "base",
        "steps": [
            {"type": "apt_install", "args": {"packages": ["curl"]}},
            {"type": "pip_install", "args": {"packages": ["rich"]}},
            {"type": "run", "args": {"commands": ["a", "b"]}},
            {"type": "env", "args": {"vars": {"A": "1"}}},
            {"type": "workdir", "args": {"path": "/app"}},
            {
                "type": "add_file",
                "args": {"path": "/etc/motd", "content": encoded("hé".encode()), "encoding": "base64"},
            },
            {
                "type": "add_file",
                "args": {"path": "/usr/bin/x", "content": "AA==", "encoding": "base64", "mode": "755"},
            },
        ],
    }


@pytest.mark.parametrize(
    ("image", "key"),
    [
        (Image.base(), "485f603ddf675cfc9b285fed0d9d5e85c4c09c66e8cb4fc0cc0720acc08874ef"),
        (
            Image.base().apt_install(["curl", "jq"]).env({"B": "2", "A": "1"}).workdir("/workspace"),
            "2078a550b61c325860c9b3f15a7b40907af4bda7a5412c19ef2b83941f1264e7",
        ),
        (
            Image.base().run_commands("echo é && true"),
            "3d1f5de5ef0d7388faf67a7f07fb8bb75a26fbc24862e14b2394d5c2db041cdb",
        ),
    ],
)
def test_the_cache_key_is_the_contracts_and_the_servers(image: Image, key: str) -> None:
    assert image.cache_key() == key
    assert parse_manifest(image.to_dict()).content_hash == key


def test_a_recipe_can_be_the_start_of_several() -> None:
    start = Image.base().env({"A": "1"})
    one, two = start.workdir("/one"), start.workdir("/two")
    assert len(start.steps) == 1
    assert one.steps[0] is two.steps[0]
    assert one.cache_key() != two.cache_key()
    with pytest.raises(FrozenInstanceError):
        start.template = "other"  # pyright: ignore[reportAttributeAccessIssue] - that is what is tried


def test_what_was_given_may_change_afterwards() -> None:
    packages, variables = ["curl"], {"A": "1"}
    image = Image.base().apt_install(packages).env(variables)
    before = image.cache_key()
    packages.append("jq")
    variables["B"] = "2"
    assert image.cache_key() == before
    image.to_dict()["steps"].clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - JSON
    assert image.cache_key() == before


def test_the_builders_memory_is_not_part_of_the_key() -> None:
    image = Image.base().builder_memory(8192)
    assert image.to_dict() == {"base": "base", "steps": [], "builderMemoryMB": 8192}
    assert image.cache_key() == Image.base().cache_key()


def test_one_text_is_no_list_of_packages() -> None:
    with pytest.raises(TypeError):
        Image.base().apt_install("curl")


def test_a_local_file_is_read_when_it_is_added(tmp_path: Path) -> None:
    file = tmp_path / "tool"
    file.write_text("one")
    file.chmod(0o755)
    image = Image.base().add_local_file(file, "/usr/local/bin/tool")
    file.write_text("two")
    assert image.steps[0].args == {
        "path": "/usr/local/bin/tool",
        "content": encoded(b"one"),
        "encoding": "base64",
        "mode": "755",
    }
    assert Image.base().add_local_file(file, "/usr/local/bin/tool").cache_key() != image.cache_key()


def test_a_local_directory_comes_whole_and_in_order(tmp_path: Path) -> None:
    """With what begins with a dot, with modes, and with copies of what links within it lead to."""
    (tmp_path / "b" / ".hidden").mkdir(parents=True)
    (tmp_path / "b" / ".hidden" / "x").write_text("x")
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / "run.sh").write_text("#!/bin/sh")
    (tmp_path / "run.sh").chmod(0o744)
    (tmp_path / "again").symlink_to("b/.hidden/x")
    step = Image.base().add_local_dir(tmp_path, "/srv").steps[0]
    assert step.type == "add_dir"
    assert step.args == {
        "path": "/srv",
        "files": [
            {"relativePath": ".env", "content": encoded(b"A=1")},
            {"relativePath": "again", "content": encoded(b"x")},
            {"relativePath": "b/.hidden/x", "content": encoded(b"x")},
            {"relativePath": "run.sh", "content": encoded(b"#!/bin/sh"), "mode": "755"},
        ],
    }


def test_one_changed_byte_makes_another_key(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\0" * 100)
    before = Image.base().add_local_dir(tmp_path, "/srv").cache_key()
    (tmp_path / "data").write_bytes(b"\0" * 99 + b"\1")
    assert Image.base().add_local_dir(tmp_path, "/srv").cache_key() != before


def test_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    """Nothing of this machine gets into an image that was not meant to."""
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    for target in (tmp_path / "secret", tmp_path, Path("below"), Path("nowhere"), Path("/etc/passwd")):
        link = folder / "link"
        link.symlink_to(target)
        with pytest.raises(ValueError, match="link"):
            Image.base().add_local_dir(folder, "/srv")
        link.unlink()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a file"):
        Image.base().add_local_dir(tmp_path, "/srv")
    with pytest.raises(NotADirectoryError):
        Image.base().add_local_dir(tmp_path / "missing", "/srv")


def test_too_much_is_refused_before_it_is_all_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(17 << 20)
    with pytest.raises(ValueError, match="32 MB"):
        Image.base().add_local_dir(tmp_path, "/srv")
