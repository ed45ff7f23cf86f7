from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.sessions.naming import new_session_id
from opencomputer.server.services.hints import Hint
from opencomputer.server.services.sessions.signals import ProcessSignals

pytestmark = pytest.mark.anyio

MINE, OTHER = new_session_id(), new_session_id()


async def _woken(hint: Hint) -> bool:
    return await hint.wait(0)


async def test_everybody_who_waits_for_a_session_is_woken() -> None:
    signals = ProcessSignals()
    with (
        signals.on_appended(MINE) as one,
        signals.on_appended(MINE) as two,
        signals.on_appended(OTHER) as other,
    ):
        waiting = asyncio.create_task(one.wait())
        await asyncio.sleep(0)
        signals.appended(MINE)
        assert await waiting
        assert await _woken(two)
        assert not await _woken(other)
        assert not await _woken(one)


async def test_what_happens_between_two_waits_is_not_lost() -> None:
    signals = ProcessSignals()
    with signals.on_canceled(MINE) as hint:
        signals.canceled(MINE)
        signals.canceled(MINE)
        assert hint.count == 2
        assert await hint.wait(0)
        signals.canceled(MINE)
        assert await hint.wait(0)
        assert not await hint.wait(0)


async def test_says_which_sessions_are_queued() -> None:
    signals = ProcessSignals()
    with signals.on_queued() as hint:
        for session in (MINE, OTHER, MINE):
            signals.queued(session)
        assert await hint.wait(0)
        assert hint.take() == {MINE, OTHER}
        assert hint.take() == set()


async def test_says_that_something_is_to_be_delivered() -> None:
    signals = ProcessSignals()
    with signals.on_delivery() as hint:
        signals.delivery()
        assert await hint.wait(0)


async def test_who_left_costs_nothing() -> None:
    signals = ProcessSignals()
    with signals.on_appended(MINE), signals.on_queued() as queued, signals.on_delivery() as delivery:
        pass
    signals.appended(MINE)
    signals.queued(MINE)
    signals.delivery()
    assert signals.waiting == 0
    assert queued.count == delivery.count == 0
