"""The loop behind the facade: interruptions, forks, and the end of the process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncGenerator

import pytest

from opencomputer.blocking import Page, Stream
from opencomputer.blocking.support import loop
from opencomputer.blocking.support.threads import Workers, off_loop
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.durable import records


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30
    )


def test_what_a_coroutine_returns_or_raises_comes_back() -> None:
    async def fails() -> None:
        raise KeyError("x")

    assert loop.run(asyncio.sleep(0, "value")) == "value"
    with pytest.raises(KeyError):
        loop.run(fails())


def test_loops_of_others_wait_for_it_without_blocking() -> None:
    async def fails() -> None:
        raise KeyError("x")

    async def waits() -> str:
        with pytest.raises(KeyError):
            await loop.awaited(fails())
        return await loop.awaited(asyncio.sleep(0, "value"))

    assert [asyncio.run(waits()), asyncio.run(waits()), loop.run(waits())] == ["value", "value", "value"]


def test_a_caller_on_another_loop_that_is_cancelled_cancels_the_call() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def gives_up() -> None:
        waiting = asyncio.create_task(loop.awaited(endless()))
        await asyncio.to_thread(begun.wait, 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(gives_up())
    assert ended.wait(10)


@pytest.mark.parametrize("another_thread_gets_it", [False, True])
def test_ctrl_c_cancels_the_call_and_lets_it_clean_up(another_thread_gets_it: bool) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    def press_ctrl_c() -> None:
        begun.wait()
        signal.pthread_kill(threading.get_ident() if another_thread_gets_it else main, signal.SIGINT)

    main = threading.get_ident()
    threading.Thread(target=press_ctrl_c).start()
    with pytest.raises(KeyboardInterrupt):
        loop.run(long())
    assert ended.is_set()


def test_the_loop_never_waits_for_itself() -> None:
    async def wrong() -> None:
        loop.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="own loop"):
        loop.run(wrong())


def test_as_many_threads_as_block_at_once_and_no_more() -> None:
    workers = Workers()
    gate = threading.Barrier(20)
    for future in [workers.submit(lambda: gate.wait(10)) for _ in range(20)]:
        future.result(10)
    before = threading.active_count()
    for _ in range(5):
        workers.submit(lambda: None).result(10)
    assert threading.active_count() == before


def test_a_callback_that_is_not_there_stays_so() -> None:
    assert off_loop(None) is None


def test_a_stream_closes_what_is_behind_it_when_it_is_let_go_of() -> None:
    closed = threading.Event()

    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in range(100):
                yield number
        finally:
            closed.set()

    for number in Stream(numbers()):
        if number == 2:
            break
    assert closed.wait(10)


def test_a_loop_over_a_page_goes_on_with_the_next() -> None:
    async def following(_: str) -> records.Page[int]:
        return records.Page([3])

    page = Page(records.Page([1, 2], "more", following))
    assert (list(page.data), page.next_cursor, list(page)) == ([1, 2], "more", [1, 2, 3])
    last = page.following()
    assert last is not None
    assert last.following() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_a_loop_of_its_own_and_nothing_of_its_parent_s() -> None:
    ended = run_python("""
        import asyncio, os, sys
        from opencomputer.blocking.support import loop
        from opencomputer.blocking.support.twin import Twin
        class Part(Twin):
            def use(self):
                return self._run_there(lambda: 1)
        part = Part(object())
        assert part.use() == 1
        child = os.fork()
        if child == 0:
            assert loop.run(asyncio.sleep(0, 7)) == 7
            try:
                part.use()
            except RuntimeError as error:
                assert "forked" in str(error)
                sys.exit(5)
            sys.exit(6)
        assert part.use() == 1
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert (ended.stdout, ended.stderr) == ("5\n", "")


def test_the_process_ends_although_calls_and_callbacks_are_under_way() -> None:
    ended = run_python("""
        import asyncio, threading
        from opencomputer.blocking.support import loop, threads
        async def endless():
            try:
                await asyncio.sleep(3600)
            finally:
                print("cleaned up", flush=True)
        loop.begin(endless())
        loop.begin(threads.off_the_loop(threading.Event().wait))
        loop.run(asyncio.sleep(0))
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "cleaned up\n", "")


def test_a_call_after_the_end_is_refused() -> None:
    ended = run_python("""
        import asyncio, atexit
        def late():
            try:
                loop.run(asyncio.sleep(0))
            except RuntimeError as error:
                print(error)
        atexit.register(late)
        from opencomputer.blocking.support import loop
    """)
    assert "the interpreter is ending" in ended.stdout


def test_a_twin_has_no_state_of_its_own() -> None:
    assert repr(Twin([1])) == "[1]"


def test_interruptions_at_any_moment_leave_the_loop_as_good_as_new() -> None:
    """Each at another step of a call: when it is started, waited for, or about to return."""
    interrupted = 0
    for number in range(200):
        after = number % 40 / 100_000
        timer = threading.Thread(target=_interrupt_after, args=(threading.get_ident(), after))
        try:
            timer.start()
            loop.run(asyncio.sleep(0.0003))
            timer.join()
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
    assert loop.run(asyncio.sleep(0, "alive")) == "alive"
    assert interrupted == 200


def _interrupt_after(thread: int, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    signal.pthread_kill(thread, signal.SIGINT)


def test_an_interruption_before_anything_was_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.Call, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))
