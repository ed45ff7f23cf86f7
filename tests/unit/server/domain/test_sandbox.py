"""A sandbox's states, the ways between them, and what of them shows."""

from __future__ import annotations

import itertools

import pytest

from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.sandbox import (
    ACTIVE,
    HIDDEN,
    TERMINAL,
    TRANSITIONS,
    SandboxState,
    check_transition,
    shown,
    stored_as,
)

CREATING, RUNNING = SandboxState.CREATING, SandboxState.RUNNING
STOPPED, FAILED = SandboxState.STOPPED, SandboxState.FAILED
HIBERNATING, HIBERNATED, WAKING = SandboxState.HIBERNATING, SandboxState.HIBERNATED, SandboxState.WAKING
RESTORING, REBOOTING = SandboxState.RESTORING, SandboxState.REBOOTING
LEGAL = {
    (CREATING, RUNNING),
    (CREATING, FAILED),
    (RUNNING, HIBERNATING),
    (HIBERNATING, HIBERNATED),
    (HIBERNATING, RUNNING),
    (HIBERNATED, WAKING),
    (WAKING, RUNNING),
    (WAKING, HIBERNATED),
    (RUNNING, RESTORING),
    (RESTORING, RUNNING),
    (RUNNING, REBOOTING),
    (REBOOTING, RUNNING),
    *((state, STOPPED) for state in SandboxState if state not in (STOPPED, FAILED)),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(SandboxState, SandboxState)))
def test_only_the_legal_ways_are_open(before: SandboxState, after: SandboxState) -> None:
    if (before, after) in LEGAL:
        check_transition(before, after)
    else:
        with pytest.raises(Conflict, match=f"{before}.*{after}"):
            check_transition(before, after)


def test_every_state_says_where_it_leads() -> None:
    assert set(TRANSITIONS) == set(SandboxState)
    assert {state for state in SandboxState if not TRANSITIONS[state]} == TERMINAL


def test_a_client_never_sees_a_sandbox_before_or_without_success() -> None:
    assert {CREATING, FAILED} == HIDDEN


def test_what_is_under_way_shows_as_what_it_was() -> None:
    assert stored_as(RUNNING) == {RUNNING, HIBERNATING, RESTORING, REBOOTING}
    assert stored_as(HIBERNATED) == {HIBERNATED, WAKING}
    assert stored_as(STOPPED) == {STOPPED}
    assert {shown(state) for state in SandboxState} == {CREATING, RUNNING, HIBERNATED, STOPPED, FAILED}


def test_only_what_has_a_machine_or_gets_one_counts_as_running() -> None:
    assert set(SandboxState) - ACTIVE == {HIBERNATED, STOPPED, FAILED}
