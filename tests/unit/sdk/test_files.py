"""`sandbox.files`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from opencomputer import AuthError, EntryInfo, NotFoundError, Sandbox, ValidationError
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox

pytestmark = pytest.mark.anyio


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize("content", ["text ☕\n", "", "a" * 1_000_000])
async def test_text_is_read_as_it_was_written(sandbox: Sandbox, content: str) -> None:
    await sandbox.files.write("notes/today.txt", content)
    assert await sandbox.files.read("/home/sandbox/notes/today.txt") == content


async def test_bytes_are_read_as_they_were_written(sandbox: Sandbox) -> None:
    await sandbox.files.write("/data/raw", bytes(range(256)))
    assert await sandbox.files.read_bytes("/data/raw") == bytes(range(256))


async def test_bad_bytes_are_replaced_in_text(sandbox: Sandbox) -> None:
    await sandbox.files.write("/bad", b"a\xffb")
    assert await sandbox.files.read("/bad") == "a\ufffdb"


async def test_content_can_be_streamed_both_ways(node: FakeNode, sandbox: Sandbox) -> None:
    await sandbox.files.write("/big", pieces(b"x" * 300_000, b"y" * 300_000))
    assert node.requests("PUT", "/files")[0].headers["transfer-encoding"] == "chunked"
    received = [chunk async for chunk in sandbox.files.read_stream("/big")]
    assert b"".join(received) == b"x" * 300_000 + b"y" * 300_000
    assert len(received) > 1


async def test_write_stream_is_write(sandbox: Sandbox, inside: FakeSandbox) -> None:
    await sandbox.files.write_stream("/s", pieces(b"a", b"b"))
    assert inside.files["/s"] == b"ab"


@pytest.mark.parametrize("path", ["/odd/na me", "/odd/a&b=c", "/odd/é%2F☕", "/odd/#?", "/odd/+"])
async def test_odd_names_reach_the_server_unharmed(sandbox: Sandbox, inside: FakeSandbox, path: str) -> None:
    await sandbox.files.write(path, "x")
    assert path in inside.files


async def test_list_describes_each_entry(sandbox: Sandbox) -> None:
    await sandbox.files.write("/d/file", "123")
    await sandbox.files.make_dir("/d/sub/deeper")
    assert await sandbox.files.list("/d") == [
        EntryInfo("file", is_dir=False, path="/d/file", size=3),
        EntryInfo("sub", is_dir=True, path="/d/sub", size=0),
    ]


async def test_an_empty_or_absent_listing_is_an_empty_list(node: FakeNode, sandbox: Sandbox) -> None:
    await sandbox.files.make_dir("/empty")
    assert await sandbox.files.list("/empty") == []
    node.rules.append(Rule("GET", f"/sandboxes/{sandbox.sandbox_id}/files/list", 200, None))
    assert await sandbox.files.list("/null") == []


async def test_remove_takes_whole_directories_and_what_is_missing(
    sandbox: Sandbox, inside: FakeSandbox
) -> None:
    await sandbox.files.write("/d/a/b", "x")
    await sandbox.files.remove("/d")
    await sandbox.files.remove("/d")
    assert inside.files == {}


async def test_exists_is_about_readable_files(sandbox: Sandbox) -> None:
    await sandbox.files.write("/d/file", "x")
    assert await sandbox.files.exists("/d/file")
    assert not await sandbox.files.exists("/d")
    assert not await sandbox.files.exists("/d/other")


async def test_exists_does_not_take_a_refused_key_for_a_missing_file(
    node: FakeNode, sandbox: Sandbox
) -> None:
    path = f"/sandboxes/{sandbox.sandbox_id}/files"
    node.rules.append(Rule("GET", path, 401, {"error": "key revoked"}))
    with pytest.raises(AuthError):
        await sandbox.files.exists("/d/file")
    node.rules.append(Rule("GET", path, 403, {"error": "unreadable", "code": "file_forbidden"}))
    assert not await sandbox.files.exists("/root/secret")


async def test_reading_what_is_not_there_raises(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError):
        await sandbox.files.read("/missing")
    with pytest.raises(NotFoundError):
        async for _ in sandbox.files.read_stream("/missing"):
            pass


async def test_reading_a_directory_raises(sandbox: Sandbox) -> None:
    await sandbox.files.make_dir("/d")
    with pytest.raises(ValidationError, match="not a regular file"):
        await sandbox.files.read("/d")


async def test_a_failing_stream_of_content_is_not_sent_again(node: FakeNode, sandbox: Sandbox) -> None:
    path = f"/sandboxes/{sandbox.sandbox_id}/files"
    node.rules.append(Rule("PUT", path, 503, {"error": "not ready"}, times=2))
    with pytest.raises(Exception, match="not ready"):
        await sandbox.files.write("/x", pieces(b"once"))
    assert len(node.requests("PUT", "/files")) == 1


async def test_calls_that_can_be_sent_again_wait_for_a_sandbox_that_wakes(
    node: FakeNode, sandbox: Sandbox
) -> None:
    await sandbox.files.write("/f", "x")
    await sandbox.files.read("/f")
    await sandbox.files.list("/")
    await sandbox.files.make_dir("/d")
    await sandbox.files.remove("/f")
    assert {seen.headers.get("x-osb-async-wake") for seen in node.seen if "/files" in seen.path} == {"1"}
    node.seen.clear()
    await sandbox.files.write("/g", pieces(b"x"))
    assert [chunk async for chunk in sandbox.files.read_stream("/g")] == [b"x"]
    assert {seen.headers.get("x-osb-async-wake") for seen in node.seen} == {None}


async def test_changeable_bytes_are_written_too(sandbox: Sandbox) -> None:
    await sandbox.files.write("/data", bytearray(b"abc"))
    assert await sandbox.files.read_bytes("/data") == b"abc"


@pytest.mark.parametrize("content", [None, 3, [b"abc"]])
async def test_what_cannot_be_content_is_refused_before_anything_is_sent(
    node: FakeNode, sandbox: Sandbox, content: Any
) -> None:
    with pytest.raises(TypeError, match="content must be"):
        await sandbox.files.write("/data", content)
    assert node.requests("PUT", "/files") == []
