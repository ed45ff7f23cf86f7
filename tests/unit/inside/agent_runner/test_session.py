"""Turns, one after the other, whatever commands arrive meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.inside.agent_runner import session as session_module
from opencomputer.inside.agent_runner.commands import Configuration
from opencomputer.inside.agent_runner.engine import EngineFailed
from tests.unit.inside.agent_runner.harness import PATIENCE_SECONDS, Harness

pytestmark = pytest.mark.anyio


async def test_a_turn_ends_with_turn_complete_after_all_its_messages(harness: Harness) -> None:
    """The engine's messages are passed on as they are, fields nobody knows included."""
    engine = await harness.turn_with("hello")
    engine.say("assistant", message={"content": [{"type": "novelty", "x": 1}]}, extra=[1, 2])
    engine.finish(result="hi", total_cost_usd=0.5)
    assert await harness.event() == {
        "type": "assistant",
        "session_id": "conversation-1",
        "message": {"content": [{"type": "novelty", "x": 1}]},
        "extra": [1, 2],
    }
    assert (await harness.event())["total_cost_usd"] == 0.5
    assert await harness.event() == {"type": "turn_complete", "claude_session_id": "conversation-1"}


async def test_an_engine_is_started_before_the_first_prompt(harness: Harness) -> None:
    """The first answer does not wait for an engine to start."""
    engine = await harness.engines.number(1)
    assert engine.configuration == Configuration()


async def test_a_follow_up_goes_to_the_same_engine(harness: Harness) -> None:
    """A conversation keeps its process."""
    first = await harness.turn_with("one")
    first.finish()
    await harness.event_of("turn_complete")
    second = await harness.turn_with("two")
    assert second is first


async def test_a_prompt_during_a_turn_is_queued_and_counted(harness: Harness) -> None:
    """The end of a turn says how many prompts still wait, and nothing when none does."""
    engine = await harness.turn_with("one")
    harness.write("prompt", text="two")
    harness.write("prompt", text="three")
    harness.write("configure")
    await harness.event_of("configured")
    engine.finish()
    assert (await harness.event_of("turn_complete"))["pending_prompts"] == 2
    assert await asyncio.wait_for(engine.prompts.get(), PATIENCE_SECONDS) == "two"
    engine.finish()
    assert (await harness.event_of("turn_complete"))["pending_prompts"] == 1
    assert await asyncio.wait_for(engine.prompts.get(), PATIENCE_SECONDS) == "three"
    engine.finish()
    assert "pending_prompts" not in await harness.event_of("turn_complete")


async def test_an_interrupt_stops_the_turn_and_the_session_goes_on(harness: Harness) -> None:
    """The interrupted turn ends with `interrupted`, after the engine's own last messages."""
    engine = await harness.turn_with("work")
    harness.write("interrupt")
    assert (await harness.event())["type"] == "result"
    assert await harness.event() == {"type": "interrupted"}
    assert engine.interrupts == 1
    again = await harness.turn_with("more")
    assert again is engine


async def test_an_interrupt_stops_only_the_running_turn(harness: Harness) -> None:
    """Prompts that wait are still answered."""
    engine = await harness.turn_with("one")
    harness.write("prompt", text="two")
    harness.write("interrupt")
    assert (await harness.event_of("interrupted"))["pending_prompts"] == 1
    assert await asyncio.wait_for(engine.prompts.get(), PATIENCE_SECONDS) == "two"


async def test_an_interrupt_without_a_turn_is_answered(harness: Harness) -> None:
    """Whoever interrupts hears about it."""
    harness.write("interrupt")
    assert await harness.event() == {"type": "interrupted"}


async def test_an_interrupt_reaches_a_turn_whose_engine_is_still_starting(harness: Harness) -> None:
    """The prompt is then not given to the engine at all."""
    harness.engines.may_start.clear()
    harness.write("prompt", text="never mind")
    harness.write("interrupt")
    assert await harness.event() == {"type": "interrupted"}
    harness.engines.may_start.set()
    engine = await harness.turn_with("instead")
    assert engine.interrupts == 0


async def test_an_engine_that_ignores_an_interrupt_is_replaced(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is over for the client, and the next one resumes the conversation."""
    monkeypatch.setattr(session_module, "INTERRUPT_SECONDS", 0.01)
    stuck = await harness.turn_with("work")
    stuck.stops_when_interrupted = False
    harness.write("interrupt")
    assert (await harness.event_of("interrupted"))["type"] == "interrupted"
    assert stuck.closed
    replacement = await harness.turn_with("more", engine=2)
    assert replacement.resume == stuck.session_id


async def test_a_failed_result_ends_the_turn_with_an_error(harness: Harness) -> None:
    """A refusal of the provider is an error of the turn, told on standard error too."""
    engine = await harness.turn_with("work")
    engine.finish(is_error=True, result="API Error: 401 no")
    assert await harness.event_of("error") == {"type": "error", "message": "API Error: 401 no"}
    assert harness.complaints == ["the turn failed: API Error: 401 no"]


async def test_a_turn_that_ran_out_of_steps_ends_with_an_error(harness: Harness) -> None:
    """The engine's list of errors is what the client reads."""
    engine = await harness.turn_with("work")
    engine.finish(subtype="error_max_turns", is_error=True, errors=["Reached maximum number of turns (2)"])
    assert (await harness.event_of("error"))["message"] == "Reached maximum number of turns (2)"


async def test_a_crash_of_the_engine_ends_the_turn_and_the_next_one_resumes(harness: Harness) -> None:
    """What the engine wrote to standard error is handed on, and the conversation goes on."""
    engine = await harness.turn_with("work")
    engine.say("assistant")
    engine.crash("the engine ended", ["line one", "line two"])
    assert await harness.event_of("error") == {"type": "error", "message": "the engine ended"}
    assert harness.complaints == ["line one", "line two", "the turn failed: the engine ended"]
    replacement = await harness.turn_with("more", engine=2)
    assert replacement.resume == engine.session_id


async def test_an_engine_that_ends_quietly_during_a_turn_is_an_error(harness: Harness) -> None:
    """Every prompt is answered, whatever happens."""
    engine = await harness.turn_with("work")
    engine.say("assistant")
    await engine.close()
    assert (await harness.event_of("error"))["message"] == "the agent engine ended"


async def test_an_engine_that_ends_before_it_has_done_anything_is_replaced_once(harness: Harness) -> None:
    """Nothing can be done twice by that."""
    engine = await harness.turn_with("work")
    engine.crash("gone", ["its last words"])
    second = await harness.engines.number(2)
    assert await second.prompts.get() == "work"
    assert second.resume == engine.session_id
    assert harness.complaints == ["its last words", "the agent engine is started again: gone"]
    second.finish()
    await harness.event_of("turn_complete")
    second.crash("between turns")
    third = await harness.turn_with("more", engine=3)
    third.crash("again")
    fourth = await harness.engines.number(4)
    await fourth.prompts.get()
    fourth.crash("and again")
    assert await harness.event_of("error") == {"type": "error", "message": "and again"}


async def test_a_prompt_that_an_engine_does_not_take_is_given_to_another(harness: Harness) -> None:
    engine = await harness.engines.number(1)
    engine.closed = True
    harness.write("prompt", text="work")
    second = await harness.engines.number(2)
    assert await second.prompts.get() == "work"
    second.finish()
    await harness.event_of("turn_complete")


async def test_an_interrupt_reaches_a_turn_that_is_asked_again(harness: Harness) -> None:
    engine = await harness.turn_with("work")
    engine.crash("gone")
    second = await harness.engines.number(2)
    await second.prompts.get()
    harness.write("interrupt")
    await harness.event_of("interrupted")
    assert second.interrupts == 1


async def test_an_engine_that_ends_between_turns_is_replaced_without_a_word(harness: Harness) -> None:
    """Nobody has to know."""
    engine = await harness.turn_with("one")
    engine.finish()
    await harness.event_of("turn_complete")
    engine.crash("gone")
    replacement = await harness.turn_with("two", engine=2)
    assert (replacement.resume, harness.complaints) == (engine.session_id, [])


async def test_configurations_are_merged_and_kept(harness: Harness) -> None:
    """A later line changes what it names and nothing else."""
    harness.write("configure", model="a", maxTurns=3)
    harness.write("configure", model="b", cwd="/tmp")
    harness.write("configure", cwd=None)
    for _ in range(3):
        assert await harness.event_of("configured") == {"type": "configured"}
    harness.write("prompt", text="go")
    engine = await harness.engines.asked()
    assert engine.configuration == Configuration(model="b", max_turns=3)


async def test_a_configuration_during_a_turn_is_used_from_the_next_one(harness: Harness) -> None:
    """The running turn is left alone; its conversation is resumed with the new settings."""
    first = await harness.turn_with("one")
    harness.write("configure", maxTurns=7)
    await harness.event_of("configured")
    assert not first.closed
    first.finish()
    await harness.event_of("turn_complete")
    second = await harness.turn_with("two", engine=2)
    assert (second.configuration.max_turns, second.resume, first.closed) == (7, first.session_id, True)


async def test_what_a_running_engine_can_take_over_needs_no_new_one(harness: Harness) -> None:
    """Its background processes survive, then."""
    engine = await harness.turn_with("one")
    engine.adapts = True
    engine.finish()
    harness.write("configure", model="other")
    await harness.event_of("configured")
    again = await harness.turn_with("two")
    assert (again, again.configuration.model) == (engine, "other")


async def test_a_configured_resume_is_used_once(harness: Harness) -> None:
    """The turn after it stays in the conversation that has come of it."""
    harness.engines.known.add("earlier")
    harness.write("configure", resume="earlier")
    await harness.event_of("configured")
    harness.write("prompt", text="one")
    engine = await harness.engines.asked()
    assert (engine.resume, engine.prompts.get_nowait()) == ("earlier", "one")
    engine.session_id = "forked"
    engine.begin()
    engine.finish()
    await harness.event_of("turn_complete")
    again = await harness.turn_with("two", engine=len(harness.engines.started))
    assert again is engine


async def test_a_prompts_own_resume_comes_first(harness: Harness) -> None:
    """It wins over the configured one and over the conversation so far."""
    harness.engines.known |= {"configured", "own"}
    engine = await harness.turn_with("one")
    harness.write("configure", resume="configured")
    harness.write("prompt", text="two", resume="own")
    await harness.event_of("configured")
    engine.finish()
    await harness.event_of("turn_complete")
    assert (await harness.engines.number(2)).resume == "own"


async def test_a_conversation_that_cannot_be_resumed_is_replaced_by_a_new_one(harness: Harness) -> None:
    """Tried once more without it, and said on standard error."""
    engine = await harness.turn_with("one")
    engine.finish()
    await harness.event_of("turn_complete")
    harness.write("prompt", text="two", resume="unknown")
    fresh = await harness.engines.number(2)
    assert fresh.resume is None
    assert await asyncio.wait_for(fresh.prompts.get(), PATIENCE_SECONDS) == "two"
    assert "unknown could not be resumed" in harness.complaints[0]


async def test_an_engine_that_does_not_start_fails_the_turn_only(harness: Harness) -> None:
    """The conversation is still there when the cause is gone."""
    engine = await harness.turn_with("one")
    engine.finish()
    await harness.event_of("turn_complete")
    harness.engines.failures = [EngineFailed("no such folder"), EngineFailed("no such folder", ["why"])] * 2
    harness.write("configure", cwd="/nowhere")
    await harness.event_of("configured")
    harness.write("prompt", text="two")
    assert (await harness.event_of("error"))["message"] == "no such folder"
    harness.engines.failures = []
    harness.write("configure", cwd=None)
    await harness.event_of("configured")
    harness.write("prompt", text="three")
    assert (await harness.engines.number(2)).resume == engine.session_id


async def test_bad_lines_are_answered_and_change_nothing(harness: Harness) -> None:
    """Invalid JSON, unknown commands, empty prompts and lines that are too long."""
    for line, start in [
        (b"{bad", "invalid JSON"),
        (b"[]", "invalid command"),
        (b'{"type":"dance"}', "unknown command"),
        (b'{"type":"prompt","text":"  "}', "prompt: 'text'"),
        (b'{"type":"configure","maxTurns":"many"}', "'maxTurns'"),
    ]:
        harness.write_raw(line)
        event = await harness.event()
        assert (event["type"], event["message"].startswith(start)) == ("error", True)
    harness.write_raw(b"   ")
    harness.write("interrupt")
    assert (await harness.event())["type"] == "interrupted"


async def test_an_error_about_a_line_counts_the_running_turn(harness: Harness) -> None:
    """So that nobody takes it for the end of that turn."""
    await harness.turn_with("work")
    harness.write_raw(b"{bad")
    assert (await harness.event_of("error"))["pending_prompts"] == 1


async def test_a_turn_the_engine_began_by_itself_is_not_confused_with_a_prompts(harness: Harness) -> None:
    """The prompt waits for it, and is answered by its own result."""
    engine = await harness.turn_with("one")
    engine.finish()
    await harness.event_of("turn_complete")
    engine.begin()
    await harness.event_of("system")
    harness.write("prompt", text="two")
    harness.write("configure")
    await harness.event_of("configured")
    assert engine.prompts.empty()
    engine.finish(result="by itself")
    assert (await harness.event())["result"] == "by itself"
    assert await asyncio.wait_for(engine.prompts.get(), PATIENCE_SECONDS) == "two"
    engine.finish()
    assert (await harness.event_of("turn_complete"))["type"] == "turn_complete"


async def test_the_session_ends_with_its_input_once_all_prompts_are_answered(harness: Harness) -> None:
    """Nothing that was accepted is dropped, and the engine is gone afterwards."""
    engine = await harness.turn_with("one")
    harness.write("prompt", text="two")
    harness.end_input()
    engine.finish()
    await harness.event_of("turn_complete")
    await asyncio.wait_for(engine.prompts.get(), PATIENCE_SECONDS)
    assert not harness.running.done()
    engine.finish()
    await harness.event_of("turn_complete")
    await asyncio.wait_for(harness.running, PATIENCE_SECONDS)
    assert engine.closed


async def test_a_cancelled_session_leaves_no_engine(harness: Harness) -> None:
    """Not even in the middle of a turn."""
    engine = await harness.turn_with("one")
    harness.running.cancel()
    await asyncio.wait([harness.running])
    assert engine.closed
