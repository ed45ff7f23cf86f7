"""The published SDK's sizes, autoscaling and scaling lock."""

import httpx
from checks import covers, main, raises

from opencomputer import PlanLimitError, Sandbox, ScalingLockedError


async def seen_memory_mb(sandbox):
    """What programs are shown."""
    result = await sandbox.exec.run("awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo")
    return int(result.stdout)


@covers("A11")
async def a_sandbox_gets_another_size_while_it_runs(sandbox):
    assert await seen_memory_mb(sandbox) == 4096
    for memory_mb, cpu_percent in ((8192, 200), (1024, 100), (4096, 100)):
        answer = await sandbox.scale(memory_mb)
        assert answer["sandboxID"] == sandbox.sandbox_id
        assert (answer["memoryMB"], answer["cpuPercent"]) == (memory_mb, cpu_percent)
        assert await seen_memory_mb(sandbox) == memory_mb


@covers("A11")
async def sizes_that_are_not_offered_are_refused(sandbox):
    for memory_mb in (512, 2048, 32768):
        error = await raises(httpx.HTTPStatusError, sandbox.scale(memory_mb))
        assert error.response.status_code == 400
        assert not isinstance(error, PlanLimitError)


@covers("A11")
async def memory_that_is_used_is_not_taken_away(sandbox):
    held = (
        "python3 -c \"import time; held = b'x' * (1200 << 20); print('held', flush=True); time.sleep(600)\""
    )
    holding = await sandbox.exec.background("sh", ["-c", f"{held} > /tmp/held"])
    try:
        await sandbox.exec.run("until grep -q held /tmp/held; do sleep 0.1; done", timeout=50)
        error = await raises(httpx.HTTPStatusError, sandbox.scale(1024))
        assert (error.response.status_code, error.response.json()["code"]) == (409, "oom_floor")
    finally:
        await holding.kill()


@covers("A11", "A12")
async def autoscaling_is_set_shown_and_ended_by_a_scale(sandbox):
    expected = {"sandboxID": sandbox.sandbox_id, "enabled": True, "minMemoryMB": 4096, "maxMemoryMB": 8192}
    assert await sandbox.set_autoscale(True, min_memory_mb=4096, max_memory_mb=8192) == expected
    assert await sandbox.get_autoscale() == expected
    assert (await sandbox.scale(4096))["autoscaleDisabled"] is True
    assert await sandbox.get_autoscale() == {**expected, "enabled": False}
    assert (await sandbox.set_autoscale(False))["enabled"] is False


@covers("A11", "A12", "A13")
async def a_lock_refuses_changes_with_an_error_of_its_own():
    async with await Sandbox.create() as sandbox:
        await sandbox.set_autoscale(True, min_memory_mb=4096, max_memory_mb=8192)
        assert await sandbox.get_scaling_lock() == {"sandboxID": sandbox.sandbox_id, "locked": False}
        assert await sandbox.set_scaling_lock(True) == {"sandboxID": sandbox.sandbox_id, "locked": True}
        assert (await sandbox.get_autoscale())["enabled"] is False
        await raises(ScalingLockedError, sandbox.scale(8192))
        await raises(ScalingLockedError, sandbox.set_autoscale(True, min_memory_mb=1024, max_memory_mb=4096))
        await sandbox.set_scaling_lock(False)
        assert (await sandbox.get_autoscale())["enabled"] is False
        assert (await sandbox.scale(8192))["memoryMB"] == 8192


main()
