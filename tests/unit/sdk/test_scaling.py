"""The size of a sandbox: what is asked, what is answered, and which errors the refusals are."""

from __future__ import annotations

import pytest

from opencomputer import ConflictError, PlanLimitError, Sandbox, ScalingLockedError
from tests.support.fake_node import FakeNode, Rule

pytestmark = pytest.mark.anyio


async def test_another_size(node: FakeNode, sandbox: Sandbox) -> None:
    answer = await sandbox.scale(8192)
    assert (answer["sandboxID"], answer["memoryMB"], answer["cpuPercent"]) == (sandbox.id, 8192, 200)
    assert node.requests("POST", "/scale")[0].body == {"memoryMB": 8192}


async def test_autoscaling_is_switched_and_shown(node: FakeNode, sandbox: Sandbox) -> None:
    switched = await sandbox.set_autoscale(True, min_memory_mb=1024, max_memory_mb=8192)
    assert switched == await sandbox.get_autoscale()
    assert switched == {"sandboxID": sandbox.id, "enabled": True, "minMemoryMB": 1024, "maxMemoryMB": 8192}
    assert (await sandbox.set_autoscale(False))["enabled"] is False
    assert node.requests("PUT", "/autoscale")[1].body == {"enabled": False}


async def test_the_lock_is_set_and_shown(sandbox: Sandbox) -> None:
    for locked in (True, False):
        assert await sandbox.set_scaling_lock(locked) == {"sandboxID": sandbox.id, "locked": locked}
        assert await sandbox.get_scaling_lock() == {"sandboxID": sandbox.id, "locked": locked}


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (402, "plan_limit", PlanLimitError),
        (403, "scaling_locked", ScalingLockedError),
        (409, "oom_floor", ConflictError),
    ],
)
async def test_refusals_are_told_apart(
    node: FakeNode, sandbox: Sandbox, status: int, code: str, error: type[Exception]
) -> None:
    node.rules.append(Rule("POST", f"/sandboxes/{sandbox.id}/scale", status, {"error": "no", "code": code}))
    with pytest.raises(error) as refused:
        await sandbox.scale(8192)
    assert getattr(refused.value, "code", None) == code
