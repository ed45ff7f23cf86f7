"""A sandbox's states and the ways between them."""

from __future__ import annotations

import itertools

import pytest

from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.sandbox import HIDDEN, TERMINAL, TRANSITIONS, SandboxState, check_transition

C, R, S, F = SandboxState.CREATING, SandboxState.RUNNING, SandboxState.STOPPED, SandboxState.FAILED
LEGAL = {(C, R), (C, F), (C, S), (R, S)}


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
    assert {SandboxState.CREATING, SandboxState.FAILED} == HIDDEN
