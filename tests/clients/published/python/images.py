"""The published SDK's `Image` and `Snapshots`, and sandboxes made from them."""

import tempfile
from pathlib import Path

import httpx
from checks import covers, main, raises

from opencomputer import Image, Sandbox, Snapshots


def described():
    """An image with every kind of step that needs no network."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "below").mkdir()
        (Path(folder) / "below/deep.txt").write_text("deep")
        (Path(folder) / "bytes").write_bytes(bytes(range(256)))
        return (
            Image.base()
            .run_commands("echo built > ~/built", "echo é && sudo touch /opt/by-root")
            .env({"FLAVOUR": "it's sweet", "OTHER": "2"})
            .workdir("/srv/app")
            .add_file("/srv/app/greeting", "hello ☕\n")
            .add_local_file(f"{folder}/bytes", "/srv/bytes")
            .add_local_dir(folder, "/srv/tree")
            .builder_memory(4096)
        )


async def assert_is_as_described(sandbox):
    script = (
        'echo "$PWD $FLAVOUR $OTHER"; cat ~/built greeting /srv/tree/below/deep.txt; stat -c %U /opt/by-root'
    )
    result = await sandbox.exec.run(script)
    assert result.stdout == "/srv/app it's sweet 2\nbuilt\nhello ☕\ndeeproot\n", result
    assert await sandbox.files.read_bytes("/srv/bytes") == bytes(range(256))


@covers("A2")
async def an_image_is_built_once_and_says_how_it_goes():
    image, first, second = described(), [], []
    async with await Sandbox.create(image=image, on_build_log=first.append, timeout=600) as sandbox:
        await assert_is_as_described(sandbox)
        assert sandbox.status == "running"
    async with await Sandbox.create(image=image, on_build_log=second.append, envs={"OTHER": "3"}) as again:
        assert (await again.exec.run('echo "$OTHER"')).stdout == "3\n"
    assert len(first) > len(second) > 0


@covers("A2")
async def a_step_that_fails_is_named_with_what_it_said():
    image = Image.base().run_commands("true").run_commands("echo no such luck >&2; exit 4")
    error = await raises(Exception, Sandbox.create(image=image))
    assert str(error).startswith("Build failed: ")
    assert "step 2" in str(error)
    assert "no such luck" in str(error)
    assert "4" in str(error)


@covers("A2")
async def what_cannot_be_is_refused_before_the_stream():
    for call in (
        Sandbox.create(snapshot="no-such-snapshot"),
        Sandbox.create(image=Image.base().workdir("not/absolute")),
    ):
        error = await raises(httpx.HTTPStatusError, call)
        assert error.response.status_code == 400


@covers("A2", "A33")
async def snapshots_are_built_listed_used_and_deleted():
    image, logs = described(), []
    snapshots = Snapshots()
    created = await snapshots.create("of-python", image, on_build_logs=logs.append)
    assert (created["name"], created["status"]) == ("of-python", "ready")
    assert created["contentHash"] == image.cache_key()
    assert created["checkpointId"]
    assert created["manifest"]["steps"] == image.to_dict()["steps"]
    assert logs
    error = await raises(httpx.HTTPStatusError, snapshots.create("of-python", image))
    assert error.response.status_code == 409
    assert "of-python" in [each["name"] for each in await snapshots.list()]
    async with await Sandbox.create(snapshot="of-python", memory_mb=4096) as sandbox:
        await snapshots.delete("of-python")
        await assert_is_as_described(sandbox)
    await snapshots.delete("of-python")
    error = await raises(httpx.HTTPStatusError, snapshots.get("of-python"))
    assert error.response.status_code == 404
    await snapshots.close()


main()
