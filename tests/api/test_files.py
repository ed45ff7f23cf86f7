"""Files over HTTP: exact bytes, streamed, replaced whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.node import Api
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def home(api: Api, sandbox: str) -> Path:
    """The sandbox user's home, which this host can see because the machine is none."""
    return Path((await api.run(sandbox, "cd; pwd"))["stdout"].strip())


class Files:
    def __init__(self, api: Api, sandbox: str) -> None:
        self._api = api
        self._base = f"/sandboxes/{sandbox}/files"

    async def read(self, path: str) -> httpx.Response:
        return await self._api.get(self._base, params={"path": path})

    async def write(self, path: str, content: Any = b"", **options: Any) -> httpx.Response:
        return await self._api.put(self._base, params={"path": path}, content=content, **options)

    async def remove(self, path: str) -> httpx.Response:
        return await self._api.delete(self._base, params={"path": path})

    async def list(self, path: str | None = None) -> httpx.Response:
        return await self._api.get(f"{self._base}/list", params={} if path is None else {"path": path})

    async def mkdir(self, path: str) -> httpx.Response:
        return await self._api.post(f"{self._base}/mkdir", params={"path": path})


@pytest.fixture
def files(api: Api, sandbox: str) -> Files:
    return Files(api, sandbox)


async def pieces(*parts: bytes) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part


CONTENTS = {
    "empty": b"",
    "text": "größe ☕\r\n".encode(),
    "every byte": bytes(range(256)) * 300,
    "zeros": bytes(1_000_000),
}


@pytest.mark.parametrize("name", CONTENTS)
async def test_what_is_written_is_read(files: Files, name: str) -> None:
    written = await files.write(f"round-{name}", CONTENTS[name])
    assert (written.status_code, written.content) == (204, b"")
    read = await files.read(f"round-{name}")
    assert (read.status_code, read.content) == (200, CONTENTS[name])
    assert read.headers["content-type"] == "application/octet-stream"
    assert read.headers["content-length"] == str(len(CONTENTS[name]))


@pytest.mark.parametrize("type_", ["text/plain", "application/json", "multipart/form-data; boundary=x", ""])
async def test_the_content_type_of_a_body_means_nothing(files: Files, type_: str) -> None:
    assert (await files.write("typed", b"{not json", headers={"content-type": type_})).status_code == 204
    assert (await files.read("typed")).content == b"{not json"


async def test_a_chunked_body_is_written_too(files: Files) -> None:
    assert (await files.write("chunked", pieces(b"one ", b"two ", b"three"))).status_code == 204
    assert (await files.read("chunked")).content == b"one two three"


async def test_a_large_file_arrives_whole_in_both_directions(files: Files, home: Path) -> None:
    block = os.urandom(1 << 20)
    digest = hashlib.sha256(block * 40).hexdigest()
    assert (await files.write("large", pieces(*[block] * 40))).status_code == 204
    assert hashlib.sha256((home / "large").read_bytes()).hexdigest() == digest
    assert hashlib.sha256((await files.read("large")).content).hexdigest() == digest
    await files.remove("large")


async def test_relative_paths_are_below_the_home(files: Files, home: Path) -> None:
    await files.write("relative/deep/file", b"x")
    assert (home / "relative/deep/file").read_bytes() == b"x"
    assert (await files.read(str(home / "relative/../relative/deep/file"))).content == b"x"


NAMES = [
    "with space",
    "new\nline",
    "tab\t",
    "quote'\"",
    "ünïcødé ☕",
    "percent%41",
    "plus+sign",
    "semi;colon&and=equals?#hash",
    "-rf",
    "...",
    "back\\slash",
    "\x7f\x01",
    "x" * 255,
]


@pytest.mark.parametrize("name", NAMES)
async def test_odd_names_are_names(files: Files, home: Path, name: str) -> None:
    assert (await files.mkdir("odd")).status_code == 204
    assert (await files.write(f"odd/{name}", name.encode())).status_code == 204
    assert (await files.read(f"odd/{name}")).content == name.encode()
    listed = (await files.list("odd")).json()
    assert listed == [
        {"name": name, "isDir": False, "size": len(name.encode()), "path": str(home / "odd" / name)}
    ]
    assert (await files.remove(f"odd/{name}")).status_code == 204
    assert (await files.list("odd")).json() == []


async def test_a_name_that_is_no_text_does_not_break_a_list(files: Files, home: Path) -> None:
    (home / "bytes").mkdir()
    (home / "bytes" / os.fsdecode(b"\xff\xfe")).write_bytes(b"x")
    answer = await files.list("bytes")
    assert answer.status_code == 200
    assert len(answer.json()) == 1
    assert (await files.remove("bytes")).status_code == 204
    assert not (home / "bytes").exists()


async def test_a_list_has_files_and_folders(files: Files, home: Path) -> None:
    await files.mkdir("listed/folder")
    await files.write("listed/file", b"12345")
    entries = {entry["name"]: entry for entry in (await files.list("listed")).json()}
    assert set(entries) == {"folder", "file"}
    assert entries["file"] == {
        "name": "file",
        "isDir": False,
        "size": 5,
        "path": str(home / "listed/file"),
    }
    assert entries["folder"]["isDir"] is True


async def test_without_a_path_the_root_is_listed(files: Files) -> None:
    names = {entry["name"] for entry in (await files.list()).json()}
    assert {"etc", "usr"} <= names


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("missing", 404, "file_not_found"),
        ("missing/deep", 404, "file_not_found"),
        ("/etc/passwd/x", 404, "file_not_found"),
        (".", 400, "not_a_file"),
        ("/", 400, "not_a_file"),
        ("/dev/null", 400, "not_a_file"),
        ("x" * 256, 400, "invalid_request"),
        ("x/" * 3000, 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_read_says_why(files: Files, path: str, status: int, code: str) -> None:
    answer = await files.read(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_pipe_is_no_file(files: Files, home: Path) -> None:
    os.mkfifo(home / "pipe")
    answer = await files.read("pipe")
    assert (answer.status_code, answer.json()["code"]) == (400, "not_a_file")


async def test_a_file_without_a_size_is_read_to_its_end(files: Files) -> None:
    answer = await files.read("/proc/self/status")
    assert answer.status_code == 200
    assert answer.content.startswith(b"Name:")
    assert "content-length" not in answer.headers


async def test_a_folder_is_no_place_for_a_file(files: Files) -> None:
    await files.mkdir("a-folder")
    assert (await files.write("a-folder", b"x")).status_code in (400, 409)
    await files.write("a-file", b"x")
    for answer in (await files.write("a-file/below", b"x"), await files.mkdir("a-file/below")):
        assert (answer.status_code, answer.json()["code"]) == (409, "file_conflict")
    assert (await files.mkdir("a-file")).status_code == 409


async def test_making_a_folder_again_is_fine(files: Files, home: Path) -> None:
    for _ in range(2):
        answer = await files.mkdir("made/again/and/again")
        assert (answer.status_code, answer.content) == (204, b"")
    assert (home / "made/again/and/again").stat().st_mode & 0o777 == 0o755


async def test_removing_takes_everything_below_and_missing_is_fine(
    files: Files, home: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"x")
    await files.write("tree/a/b/c", b"x")
    (home / "tree/link").symlink_to(tmp_path)
    for _ in range(2):
        answer = await files.remove("tree")
        assert (answer.status_code, answer.content) == (204, b"")
    assert not (home / "tree").exists()
    assert kept.exists()


async def test_a_listed_file_is_no_folder(files: Files) -> None:
    await files.write("plain", b"x")
    answer = await files.list("plain")
    assert (answer.status_code, answer.json()["code"]) == (400, "not_a_directory")
    assert (await files.list("missing")).json()["code"] == "file_not_found"


@pytest.mark.parametrize("query", ["", "?path=", "?path=%00", "?path=a%00b", "?other=x"])
async def test_a_path_has_to_be_said_and_free_of_nul(api: Api, sandbox: str, query: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = await api.request(method, f"/sandboxes/{sandbox}/files{query}")
        assert (answer.status_code, answer.json()["field"]) == (400, "path"), method
    answer = await api.post(f"/sandboxes/{sandbox}/files/mkdir{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, "path")


async def test_a_list_of_a_path_with_nul_is_refused(api: Api, sandbox: str) -> None:
    answer = await api.get(f"/sandboxes/{sandbox}/files/list?path=a%00b")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_a_file_keeps_its_mode_when_it_is_replaced(files: Files, home: Path) -> None:
    await files.write("script", b"old")
    assert (home / "script").stat().st_mode & 0o777 == 0o644
    (home / "script").chmod(0o750)
    await files.write("script", b"new")
    assert (home / "script").stat().st_mode & 0o777 == 0o750
    assert (home / "script").read_bytes() == b"new"


async def test_a_link_is_followed_to_its_target(files: Files, home: Path) -> None:
    await files.write("target", b"old")
    (home / "link").symlink_to("target")
    await files.write("link", b"new")
    assert (home / "link").is_symlink()
    assert (home / "target").read_bytes() == b"new"
    await files.remove("link")
    assert (home / "target").exists()


async def test_a_broken_upload_leaves_the_old_file_and_nothing_else(files: Files, home: Path) -> None:
    await files.mkdir("careful")
    await files.write("careful/file", b"the old one")

    async def breaking() -> AsyncGenerator[bytes]:
        yield b"x" * 500_000
        raise OSError("the client is gone")

    with pytest.raises(OSError):
        await files.write("careful/file", breaking())

    async def put_right() -> bool:
        return [path.name for path in (home / "careful").iterdir()] == ["file"]

    await eventually(put_right, "the removal of the half-written file")
    assert (home / "careful/file").read_bytes() == b"the old one"


async def test_a_reader_who_goes_away_leaves_nothing_open(api: Api, sandbox: str, files: Files) -> None:
    await files.write("long", bytes(30_000_000))
    for _ in range(5):
        async with api.client.stream("GET", f"/api/sandboxes/{sandbox}/files?path=long") as answer:
            async for _ in answer.aiter_raw():
                break
    assert (await api.run(sandbox, "echo alive"))["stdout"] == "alive\n"


async def test_whether_a_path_exists_is_seen_by_reading_it(files: Files) -> None:
    """Both published clients ask so: 2xx for a file, anything else for a folder and for nothing."""
    await files.write("there", b"")
    await files.mkdir("a-directory")
    statuses = [(await files.read(path)).status_code for path in ("there", "a-directory", "not-there")]
    assert statuses == [200, 400, 404]


async def test_the_header_about_waking_means_nothing_while_awake(api: Api, sandbox: str) -> None:
    answer = await api.get(
        f"/sandboxes/{sandbox}/files/list?path=.", headers={"X-OSB-Async-Wake": "1", "x-oc-sdk-version": "9"}
    )
    assert answer.status_code == 200
