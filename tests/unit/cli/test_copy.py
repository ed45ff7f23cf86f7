"""`oc cp`."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest

from opencomputer.cli.copying import Place, local_path, place
from opencomputer.cli.failures import CommandError
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import finish, start

SANDBOX = "sb-00000001"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with files, a folder in it, and links."""
    folder = tmp_path / "project"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "deep" / "er" / "b☕.bin").write_bytes(b"\0b")
    (folder / "empty").mkdir()
    (folder / "link.txt").symlink_to("a.txt")
    (folder / "loop").symlink_to(".")
    return folder


def test_a_file_goes_where_it_is_told(oc: Oc, inside: FakeSandbox, project: Path) -> None:
    outcome = oc("cp", str(project / "a.txt"), f"{SANDBOX}:/data/renamed")
    assert (outcome.exit_code, outcome.stdout) == (0, "✓ 1 file, 1 B\n")
    assert inside.files == {"/data/renamed": b"a"}


@pytest.mark.parametrize("target", ["/data", "/data/"])
def test_a_file_goes_into_a_folder_under_its_own_name(
    oc: Oc, inside: FakeSandbox, project: Path, target: str
) -> None:
    inside.directories.add("/data")
    oc("cp", str(project / "a.txt"), f"{SANDBOX}:{target}")
    assert inside.files == {"/data/a.txt": b"a"}


def test_no_path_is_the_home_directory(oc: Oc, inside: FakeSandbox, project: Path) -> None:
    inside.directories.add("/home/sandbox")
    oc("cp", str(project / "a.txt"), f"{SANDBOX}:")
    assert inside.files == {"/home/sandbox/a.txt": b"a"}


def test_a_folder_goes_with_all_that_is_in_it(oc: Oc, inside: FakeSandbox, project: Path) -> None:
    outcome = oc("cp", str(project), f"{SANDBOX}:/copy", "--json")
    assert json.loads(outcome.stdout) == {"files": 3, "bytes": 4}
    assert inside.files == {"/copy/a.txt": b"a", "/copy/deep/er/b☕.bin": b"\0b", "/copy/link.txt": b"a"}
    assert {"/copy/empty", "/copy/deep/er"} <= inside.directories
    assert outcome.stderr == f"left out {project}/loop: a link to a folder\n"


def test_a_folder_comes_back_as_it_went(oc: Oc, inside: FakeSandbox, project: Path, tmp_path: Path) -> None:
    oc("cp", str(project), f"{SANDBOX}:/copy")
    assert oc("cp", f"{SANDBOX}:/copy", str(tmp_path / "back")).exit_code == 0
    back = tmp_path / "back"
    assert (back / "deep" / "er" / "b☕.bin").read_bytes() == b"\0b"
    assert (back / "empty").is_dir()
    assert {entry.name for entry in back.iterdir()} == {"a.txt", "deep", "empty", "link.txt"}


def test_a_file_comes_into_a_folder_that_is_there(oc: Oc, inside: FakeSandbox, tmp_path: Path) -> None:
    inside.files["/x/y.txt"] = b"content"
    oc("cp", f"{SANDBOX}:/x/y.txt", str(tmp_path))
    oc("cp", f"{SANDBOX}:/x/y.txt", f"{tmp_path}/new/")
    oc("cp", f"{SANDBOX}:/x/y.txt", f"{tmp_path}/renamed")
    for name in ("y.txt", "new/y.txt", "renamed"):
        assert (tmp_path / name).read_bytes() == b"content"


def test_standard_input_and_output_are_a_dash(node: FakeNode, inside: FakeSandbox) -> None:
    assert finish(start(node, "cp", "-", f"{SANDBOX}:/piped"), b"through\0") == (
        0,
        b"\xe2\x9c\x93 1 file, 8 B\n",
        b"",
    )
    assert finish(start(node, "cp", f"{SANDBOX}:/piped", "-")) == (0, b"through\0", b"")


def test_what_is_not_there_is_a_refusal_and_leaves_nothing(
    oc: Oc, inside: FakeSandbox, tmp_path: Path
) -> None:
    outcome = oc("cp", f"{SANDBOX}:/missing", str(tmp_path / "x"))
    assert outcome.exit_code == 3
    assert outcome.stderr.startswith("Error: There is no such file or directory.\n")
    assert list(tmp_path.glob("**/*x*")) == []


def test_a_failing_download_leaves_the_old_file(
    oc: Oc, node: FakeNode, inside: FakeSandbox, tmp_path: Path
) -> None:
    target = tmp_path / "kept"
    target.write_text("old")
    inside.files["/f"] = b"new"
    node.rules.append(Rule("GET", f"/sandboxes/{SANDBOX}/files", 500, {"error": "broken"}))
    assert oc("cp", f"{SANDBOX}:/f", str(target)).exit_code == 5
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir() if "oc-" in entry.name] == []


def listing(name: str, path: str, *, folder: bool = False) -> list[dict[str, object]]:
    return [{"name": name, "isDir": folder, "size": 1, "path": path}]


@pytest.mark.parametrize("name", ["../escaped", "/etc/cron.d/x", "..", "a/b", "a\0b"])
def test_a_hostile_name_writes_nothing(
    oc: Oc, node: FakeNode, inside: FakeSandbox, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "target"
    answer = listing(name, "/evil/x")
    node.rules.append(Rule("GET", f"/sandboxes/{SANDBOX}/files/list", 200, answer, times=2))
    outcome = oc("cp", f"{SANDBOX}:/evil", str(target))
    assert outcome.exit_code == 1
    assert not target.exists()


def test_a_folder_that_leads_back_to_itself_is_noticed(
    oc: Oc, node: FakeNode, inside: FakeSandbox, tmp_path: Path
) -> None:
    answer = listing("again", "/loop", folder=True)
    node.rules.append(Rule("GET", f"/sandboxes/{SANDBOX}/files/list", 200, answer, times=1000))
    outcome = oc("cp", f"{SANDBOX}:/loop", str(tmp_path / "target"))
    assert outcome.exit_code == 1
    assert "lies too deep" in outcome.stderr
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("sb-0a1b2c3d:/x:y", Place("sb-0a1b2c3d", "/x:y")),
        ("sb-0a1b2c3d:", Place("sb-0a1b2c3d", ".")),
        ("./sb-0a1b2c3d:/x", Place("", "./sb-0a1b2c3d:/x")),
        ("plain", Place("", "plain")),
        ("C:x", Place("", "C:x")),
    ],
)
def test_places_are_read(argument: str, expected: Place) -> None:
    assert place(argument) == expected


def test_local_names_stay_in_their_folder() -> None:
    assert local_path(PurePath("/base"), "ok.txt") == PurePath("/base/ok.txt")
    with pytest.raises(CommandError):
        local_path(PurePath("/base"), "..")


def test_a_pipe_that_is_named_is_read_to_its_end(oc: Oc, inside: FakeSandbox, tmp_path: Path) -> None:
    """As of `oc cp <(program) …`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=[b"through the pipe"])
    writing.start()
    outcome = oc("cp", str(pipe), f"{SANDBOX}:/x")
    writing.join(10)
    assert (outcome.exit_code, inside.files) == (0, {"/x": b"through the pipe"})


def test_a_backslash_is_a_part_of_a_name_but_where_it_parts_folders() -> None:
    assert local_path(PurePosixPath("/base"), "a\\b") == PurePosixPath("/base/a\\b")
    for name in ("a\\b", "C:b", "C:\\b"):
        with pytest.raises(CommandError):
            local_path(PureWindowsPath("base"), name)
