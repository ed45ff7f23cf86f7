"""`sandbox.mounts`: what is asked, and what becomes of the answers."""

from __future__ import annotations

import pytest

from opencomputer import MountInfo, Mounts, Sandbox
from tests.support.fake_node import FakeNode, Rule
from tests.unit.sdk.exchanges import Asked, Exchange, check, check_unsupported

pytestmark = pytest.mark.anyio

_PATH = "/sandboxes/sb-00000001/mounts"
_S3 = {
    "path": "/mnt/data",
    "driver": "rclone",
    "readOnly": True,
    "remote": "s3:bucket/prefix",
    "backend": "s3",
    "rcloneVersion": "v1.65.2",
}
_COMMAND = {
    "path": "/mnt/own",
    "driver": "command",
    "readOnly": False,
    "command": ["gcsfuse", "bucket", "{mountpoint}"],
    "env": {"A": "b"},
}
_OF_S3 = MountInfo("/mnt/data", True, "rclone", "s3:bucket/prefix", "s3", "v1.65.2")
_OF_COMMAND = MountInfo(
    "/mnt/own", False, "command", command=["gcsfuse", "bucket", "{mountpoint}"], env={"A": "b"}
)

EXCHANGES = (
    Exchange[Mounts](
        "a backend with credentials",
        lambda mounts: mounts.add(
            "/mnt/data",
            "s3:bucket/prefix",
            "s3",
            {"access_key_id": "k", "secret_access_key": "s"},
            mount_options=["--dir-cache-time", "1m"],
        ),
        Asked(
            "POST",
            _PATH,
            {
                "path": "/mnt/data",
                "remote": "s3:bucket/prefix",
                "readOnly": True,
                "backend": "s3",
                "creds": {"access_key_id": "k", "secret_access_key": "s"},
                "mountOptions": ["--dir-cache-time", "1m"],
            },
        ),
        _S3,
        _OF_S3,
        201,
    ),
    Exchange[Mounts](
        "a configuration of rclone",
        lambda mounts: mounts.add("/m", "x:", rclone_config="[x]\ntype = memory", read_only=False),
        Asked(
            "POST",
            _PATH,
            {"path": "/m", "remote": "x:", "readOnly": False, "rcloneConfig": "[x]\ntype = memory"},
        ),
        {"path": "/m", "readOnly": False},
        MountInfo("/m", False),
        201,
    ),
    Exchange[Mounts](
        "a program",
        lambda mounts: mounts.add_command(
            "/mnt/own", ["gcsfuse", "bucket", "{mountpoint}"], {"A": "b"}, {"KEY": "s"}, read_only=False
        ),
        Asked(
            "POST",
            _PATH,
            {
                "path": "/mnt/own",
                "driver": "command",
                "command": ["gcsfuse", "bucket", "{mountpoint}"],
                "readOnly": False,
                "env": {"A": "b"},
                "secrets": {"KEY": "s"},
            },
        ),
        _COMMAND,
        _OF_COMMAND,
        201,
    ),
    Exchange[Mounts](
        "list", lambda mounts: mounts.list(), Asked("GET", _PATH), [_S3, _COMMAND], [_OF_S3, _OF_COMMAND]
    ),
    Exchange[Mounts]("list of none", lambda mounts: mounts.list(), Asked("GET", _PATH), "null", []),
    Exchange[Mounts](
        "remove",
        lambda mounts: mounts.remove("/mnt/my data"),
        Asked("DELETE", _PATH, query={"path": "/mnt/my data"}),
        None,
        None,
        204,
    ),
)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.id)
async def test_mounts(node: FakeNode, sandbox: Sandbox, exchange: Exchange[Mounts]) -> None:
    assert sandbox.mounts is sandbox.mounts
    await check(node, sandbox.mounts, exchange)
    await check_unsupported(node, sandbox.mounts, exchange)


async def test_removing_what_is_not_mounted_is_no_error(node: FakeNode, sandbox: Sandbox) -> None:
    node.rules.append(Rule("DELETE", _PATH, 404, {"error": "not mounted"}))
    await sandbox.mounts.remove("/mnt/data")
    assert len(node.requests("DELETE", "/mounts")) == 1


async def test_credentials_are_not_shown(node: FakeNode, sandbox: Sandbox) -> None:
    node.rules.append(Rule("POST", _PATH, 201, _S3))
    made = await sandbox.mounts.add("/mnt/data", "s3:bucket", "s3", {"secret_access_key": "hush"})
    assert "hush" not in repr(made)
