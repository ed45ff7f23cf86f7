"""Small pure parts of the guest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.inside.guest import memory
from opencomputer.inside.guest.environment import compose, parse_environment
from opencomputer.inside.guest.identity import with_own_name
from opencomputer.inside.guest.lookup import NotExecutable, find_program
from opencomputer.inside.guest.paths import final_name
from opencomputer.inside.guest.permissions import allows
from opencomputer.inside.guest.server import equal_secrets
from opencomputer.inside.guest.trees import ProcessEntry, descendants, parse_stat
from opencomputer.inside.guest.users import ROOT, User, UserDatabase

SANDBOX = User("sandbox", 1000, 1000, "/home/sandbox", "/bin/bash", (27,))


@given(st.text(), st.text())
def test_secrets_are_equal_only_to_themselves(left: str, right: str) -> None:
    encoded = left.encode("utf-8", "replace"), right.encode("utf-8", "replace")
    assert equal_secrets(left, right) == (encoded[0] == encoded[1])
    assert equal_secrets(left, left)


def test_no_secret_is_equal_to_no_secret_only() -> None:
    assert not equal_secrets("", "x")
    assert not equal_secrets("x", "")


def test_users_are_read_from_the_image(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\nbroken line\nsandbox:x:1234:1235::/home/box:/bin/zsh\n"
    )
    (tmp_path / "etc/group").write_text("sudo:x:27:sandbox,other\nbox:x:1235:\nodd:x:y:sandbox\n")
    users = UserDatabase(str(tmp_path))
    user = users.find("sandbox")
    assert user is not None
    assert (user.uid, user.gid, user.home, user.shell) == (1234, 1235, "/home/box", "/bin/zsh")
    assert user.groups == (27,)
    assert users.find("nobody-here") is None
    assert users.find_group("sudo") == 27
    by_uid = users.find_by_uid(1234)
    assert by_uid is not None
    assert by_uid.name == "sandbox"


def test_an_image_without_users_has_the_sandbox_user(tmp_path: Path) -> None:
    user = UserDatabase(str(tmp_path)).find("sandbox")
    assert user is not None
    assert (user.uid, user.gid, user.home) == (1000, 1000, "/home/sandbox")


def test_a_user_added_later_is_seen(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    users = UserDatabase(str(tmp_path))
    assert users.find("new") is None
    (tmp_path / "etc/passwd").write_text("new:x:7:7::/:/bin/sh\n")
    assert users.find("new") is not None


def test_environment_files_hold_keys_and_values() -> None:
    text = "# comment\nA=1\n\nB = x y=z\nno equals\n=empty\n C=3\nD=\n"
    assert parse_environment(text) == {"A": "1", "B": " x y=z", "C": "3", "D": ""}


def test_later_layers_of_the_environment_win() -> None:
    environment = compose(SANDBOX, {"A": "image", "LANG": "xx"}, {"A": "request"})
    assert environment["A"] == "request"
    assert environment["LANG"] == "xx"
    assert environment["HOME"] == "/home/sandbox"
    assert environment["PATH"].startswith("/usr/local/sbin:")


@pytest.mark.parametrize(
    ("user", "mode", "owner", "group", "granted"),
    [
        (SANDBOX, 0o700, 1000, 0, True),
        (SANDBOX, 0o077, 1000, 1000, False),
        (SANDBOX, 0o070, 0, 27, True),
        (SANDBOX, 0o707, 0, 1000, False),
        (SANDBOX, 0o007, 0, 0, True),
        (SANDBOX, 0o770, 0, 0, False),
        (ROOT, 0o000, 5, 5, True),
    ],
)
def test_mode_bits_are_read_as_the_kernel_reads_them(
    user: User, mode: int, owner: int, group: int, granted: bool
) -> None:
    assert allows(user, mode, owner, group, 7) is granted


def test_programs_are_found_in_the_order_of_the_path(tmp_path: Path) -> None:
    me = User("me", os.geteuid(), os.getegid(), "/", "/bin/sh")
    for folder, mode in (("a", 0o644), ("b", 0o755), ("c", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").touch(mode)
        (tmp_path / folder / "tool").chmod(mode)
    path = {"PATH": ":".join(str(tmp_path / folder) for folder in ("none", "a", "b", "c"))}
    assert find_program("tool", path, "/", me) == str(tmp_path / "b/tool")
    assert find_program("./tool", {}, str(tmp_path / "c"), me) == f"{tmp_path}/c/./tool"
    with pytest.raises(FileNotFoundError):
        find_program("other", path, "/", me)
    with pytest.raises(NotExecutable):
        find_program(str(tmp_path / "a/tool"), path, "/", me)
    with pytest.raises(NotExecutable):
        find_program(str(tmp_path), path, "/", me)


def test_a_process_name_may_hold_anything() -> None:
    entry = parse_stat("12 (a) b (c)) S 3 4 5 0 -1")
    assert entry is not None
    assert (entry.pid, entry.parent, entry.group, entry.session) == (12, 3, 4, 5)
    assert parse_stat("12 (z) Z 3 4 5 0") is None
    assert parse_stat("") is None


def test_descent_is_by_parent_group_and_session() -> None:
    entries = [
        ProcessEntry(10, 1, 10, 10),
        ProcessEntry(11, 10, 11, 10),
        ProcessEntry(12, 11, 12, 12),
        ProcessEntry(13, 1, 12, 13),
        ProcessEntry(20, 1, 20, 20),
    ]
    assert descendants(entries, {10}) == {10, 11, 12, 13}
    assert descendants(entries, set()) == set()


def test_the_own_name_is_in_the_hosts_file_once() -> None:
    hosts = "127.0.0.1\tlocalhost\n127.0.1.1 old\n10.0.0.1 other\n"
    once = with_own_name(hosts, "box")
    assert once == "127.0.0.1\tlocalhost\n10.0.0.1 other\n127.0.1.1\tbox\n"
    assert with_own_name(once, "box") == once


def test_the_last_part_of_a_path_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    assert final_name(f"{tmp_path}/link/") == f"{tmp_path}/link"
    assert final_name(f"{tmp_path}/link/.") == f"{tmp_path}/folder"
    assert final_name(f"{tmp_path}/link/x") == f"{tmp_path}/folder/x"
    assert final_name("/tmp/..") == "/"
    assert final_name("///") == "/"


@pytest.mark.parametrize(
    ("meminfo", "most"),
    [
        ("MemTotal:  524288 kB\n", 512),
        ("MemTotal: 1048576 kB\n", 1024),
        ("MemTotal: 4194304 kB\n", 1024),
        ("MemTotal: 8388608 kB\n", 2048),
        ("MemTotal: 33554432 kB\n", 4096),
        ("MemTotal: 1024 kB\n", 128),
        ("nothing here\n", 128),
    ],
)
def test_a_small_machine_may_have_fewer_processes(meminfo: str, most: int) -> None:
    assert memory.most_processes(memory.kernel_memory(meminfo)[0]) == most


def test_the_largest_process_makes_room() -> None:
    mebibyte = 1 << 20
    sizes = {10: 5 * mebibyte, 11: 300 * mebibyte, 12: 100 * mebibyte}
    assert memory.choose(sizes, 512 * mebibyte) == 11
    assert memory.choose({10: 5 * mebibyte}, 512 * mebibyte) is None
    assert memory.choose({}, 512 * mebibyte) is None


def test_the_less_is_free_the_sooner_we_look_again() -> None:
    total = 1 << 30
    pauses = [memory.pause(total, free) for free in (total, total // 2, total // 8, memory.reserve(total), 0)]
    assert pauses == sorted(pauses, reverse=True)
    assert 0 < pauses[-1] < 0.05


def test_meminfo_is_read_in_bytes() -> None:
    text = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 400 kB\nodd\n"
    assert memory.kernel_memory(text) == (1000 * 1024, 600 * 1024)
    assert memory.kernel_memory("") == (0, 0)


def test_more_than_a_kernel_knows_of_is_counted_by_what_it_has_in_use() -> None:
    text = "MemTotal: 1000 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\nActive: 2000 kB\nInactive: 50 kB\n"
    assert memory.kernel_memory(text) == (1000 * 1024, 2050 * 1024)
