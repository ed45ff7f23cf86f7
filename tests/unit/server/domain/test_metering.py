"""What counts of a sandbox in each state, and what a change of it ends and begins."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.metering import Meter, counted, second_of, switch
from opencomputer.server.domain.sandbox import SandboxShape, SandboxState, shown

SHAPE = SandboxShape(memory_mb=4096, cpu_count=1, disk_mb=20480 + 1000)


@pytest.mark.parametrize("state", SandboxState)
def test_memory_counts_while_a_sandbox_is_shown_as_running_but_not_while_it_is_put_to_sleep(
    state: SandboxState,
) -> None:
    runs = shown(state) is SandboxState.RUNNING and state is not SandboxState.HIBERNATING
    assert counted(state, SHAPE).get(Meter.MEMORY, 0) == (4096 if runs else 0)


@pytest.mark.parametrize("state", SandboxState)
def test_the_disk_counts_asleep_or_not_from_when_the_sandbox_is_ready_until_it_ends(
    state: SandboxState,
) -> None:
    gone = state in (SandboxState.CREATING, SandboxState.FAILED, SandboxState.STOPPED)
    assert counted(state, SHAPE).get(Meter.DISK, 0) == (0 if gone else 1000)


def test_the_disk_that_is_included_does_not_count() -> None:
    assert counted(SandboxState.RUNNING, SandboxShape(1024, 1, 20480)) == {Meter.MEMORY: 1024}


_SIZES = st.dictionaries(st.sampled_from(Meter), st.integers(1, 3))


@given(running=_SIZES, wanted=_SIZES)
def test_a_switch_leads_to_what_is_wanted_and_leaves_alone_what_is_so_already(
    running: dict[Meter, int], wanted: dict[Meter, int]
) -> None:
    change = switch(running, wanted)
    begun = change.beginning or {}
    left = {meter: mb for meter, mb in running.items() if meter not in change.ending}
    assert left.keys().isdisjoint(begun)
    assert {**left, **begun} == wanted
    assert all(running.get(meter) != mb for meter, mb in begun.items())


def test_a_moment_falls_into_the_second_that_has_begun() -> None:
    assert second_of(datetime(1970, 1, 1, 0, 0, 7, 999_999, tzinfo=UTC)) == 7
    assert second_of(datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)) == -1
