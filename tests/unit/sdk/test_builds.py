"""Sandboxes from images and snapshots, and `Snapshots`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from opencomputer import BuildFailedError, ConflictError, Image, NotFoundError, Sandbox, Snapshots
from opencomputer.sdk.build_stream import events
from tests.support.fake_node import FakeNode, Rule

pytestmark = pytest.mark.anyio

IMAGE = Image.base().run_commands("true")


@pytest.fixture
async def snapshots(node: FakeNode) -> AsyncIterator[Snapshots]:
    async with Snapshots(node.api_key, node.url) as client:
        yield client


async def test_a_sandbox_of_an_image_is_asked_for_as_a_stream(node: FakeNode) -> None:
    node.build_log = ["one", "twö\u2028", "three"]
    lines: list[str] = []
    sandbox = await Sandbox.create(
        api_key=node.api_key, api_url=node.url, image=IMAGE, envs={"A": "1"}, on_build_log=lines.append
    )
    asked = node.requests("POST", "/sandboxes")[0]
    assert asked.body == {"templateID": "base", "timeout": 0, "envs": {"A": "1"}, "image": IMAGE.to_dict()}
    assert asked.headers["accept"] == "text/event-stream"
    assert "idempotency-key" not in asked.headers
    assert lines == ["one", "twö\u2028", "three"]
    assert sandbox.status == "running"
    await sandbox.close()


async def test_a_sandbox_of_a_snapshot_is_killed_at_the_end_as_any_other(node: FakeNode) -> None:
    async with Sandbox.create(api_key=node.api_key, api_url=node.url, snapshot="tools") as sandbox:
        assert node.requests("POST", "/sandboxes")[0].body == {
            "templateID": "base",
            "timeout": 0,
            "snapshot": "tools",
        }
    assert sandbox.status == "stopped"


async def test_a_manifest_is_as_good_as_an_image(node: FakeNode) -> None:
    manifest: dict[str, object] = {"base": "base", "steps": []}
    async with Sandbox.create(api_key=node.api_key, api_url=node.url, image=manifest):
        assert node.seen[0].body == {"templateID": "base", "timeout": 0, "image": manifest}


async def test_callbacks_may_be_coroutines_and_may_fail(node: FakeNode) -> None:
    node.build_log = ["one", "two"]
    lines: list[str] = []

    async def listen(line: str) -> None:
        lines.append(line)
        raise RuntimeError("of the user's own")

    async with Sandbox.create(
        api_key=node.api_key, api_url=node.url, image=IMAGE, on_build_log=listen
    ) as sandbox:
        assert sandbox.status == "running"
    assert lines == ["one", "two"]


async def test_a_build_that_fails_says_why(node: FakeNode) -> None:
    node.build_error = "step 1 (run) failed (exit 2)"
    with pytest.raises(BuildFailedError, match=r"^Build failed: step 1 \(run\) failed \(exit 2\)$") as caught:
        await Sandbox.create(api_key=node.api_key, api_url=node.url, image=IMAGE)
    assert caught.value.reason == "step 1 (run) failed (exit 2)"
    assert isinstance(caught.value, RuntimeError)


async def test_a_stream_that_just_ends_is_a_failure(node: FakeNode) -> None:
    node.build_is_cut = True
    with pytest.raises(BuildFailedError, match="without a result"):
        await Sandbox.create(api_key=node.api_key, api_url=node.url, image=IMAGE)


async def test_what_is_refused_at_once_is_an_ordinary_error(node: FakeNode) -> None:
    node.rules.append(Rule("POST", "/sandboxes", 404, {"error": "there is no template", "code": "not_found"}))
    with pytest.raises(NotFoundError, match="there is no template"):
        await Sandbox.create(api_key=node.api_key, api_url=node.url, image=IMAGE)


async def test_a_server_may_answer_with_plain_json(node: FakeNode) -> None:
    node.rules.append(Rule("POST", "/sandboxes", 201, {"sandboxID": "sb-1", "status": "running"}))
    sandbox = await Sandbox.create(api_key=node.api_key, api_url=node.url, image=IMAGE)
    assert sandbox.id == "sb-1"
    await sandbox.close()


async def test_a_snapshot_is_made_and_told(node: FakeNode, snapshots: Snapshots) -> None:
    node.build_log = ["building"]
    lines: list[str] = []
    made = await snapshots.create("tools", IMAGE, lines.append)
    assert (made["name"], made["status"], lines) == ("tools", "ready", ["building"])
    assert node.requests("POST", "/snapshots")[0].body == {"name": "tools", "image": IMAGE.to_dict()}
    with pytest.raises(ConflictError):
        await snapshots.create("tools", IMAGE)


async def test_snapshots_are_listed_shown_and_deleted(node: FakeNode, snapshots: Snapshots) -> None:
    await snapshots.create("one", IMAGE)
    await snapshots.create("two", IMAGE)
    assert [each["name"] for each in await snapshots.list()] == ["two", "one"]
    assert (await snapshots.get("one"))["name"] == "one"
    await snapshots.delete("one")
    await snapshots.delete("one")
    with pytest.raises(NotFoundError):
        await snapshots.get("one")


async def test_names_are_encoded_in_paths(node: FakeNode, snapshots: Snapshots) -> None:
    with pytest.raises(NotFoundError):
        await snapshots.get("a b?c")
    assert node.seen[-1].path.startswith("/snapshots/a b")
    assert node.seen[-1].query == {}


async def test_waiting_asks_until_it_is_ready_also_before_it_is_there(
    node: FakeNode, snapshots: Snapshots
) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)
        if len(delays) == 8:
            node.snapshots["late"] = {"name": "late", "status": "building"}

    assert (await snapshots.wait_until_ready("late", sleep=sleep))["status"] == "ready"
    assert delays == [1.0, 1.5, 2.25, 3.375, 5.0, 5.0, 5.0, 5.0, 5.0]


async def test_waiting_ends_for_one_that_failed(node: FakeNode, snapshots: Snapshots) -> None:
    node.snapshots["bad"] = {"name": "bad", "status": "failed", "error": "step 1 failed"}
    with pytest.raises(BuildFailedError, match="step 1 failed"):
        await snapshots.wait_until_ready("bad")


async def test_waiting_ends_in_time(snapshots: Snapshots) -> None:
    with pytest.raises(TimeoutError):
        await snapshots.wait_until_ready("never", timeout=0.05, poll_interval=0.01)


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def test_events_are_found_whatever_the_pieces() -> None:
    stream = b'event: a\ndata: {"x":1}\n\n: keepalive\n\nevent: b\ndata: {"y":"\xc3\xa9"}\n\n'
    expected = [("a", {"x": 1}), ("b", {"y": "é"})]
    for size in (1, 2, 3, 100):
        cut = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [event async for event in events(pieces(*cut))] == expected


async def test_a_stream_that_is_no_json_is_a_fault_of_the_connection() -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        [event async for event in events(pieces(b"event: a\ndata: <html>\n\n"))]
