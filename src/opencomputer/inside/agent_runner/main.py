"""The runner's process: standard streams, signals, exit codes."""

from __future__ import annotations

import asyncio
import os
import signal

from . import events
from .claude import ClaudeEngines
from .environment import NO_CREDENTIAL, forget_own_path, has_credential
from .events import EventWriter, claim_standard_output, complain
from .lines import read_lines
from .session import Session

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """Run one session on standard input and output. Returns the exit code.

    0 at the end of input, 1 without a credential or without a reader, 128+N after signal N.
    """
    descriptor = claim_standard_output()
    forget_own_path(os.environ)
    if not has_credential(os.environ):
        EventWriter(descriptor, lambda: None).emit(events.error(NO_CREDENTIAL, 0))
        return 1
    return asyncio.run(_serve(descriptor))


async def _serve(descriptor: int) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, end, 128 + number)
    writer = EventWriter(descriptor, lambda: end(1))
    writer.emit(events.READY)
    session = asyncio.ensure_future(Session(ClaudeEngines(), writer.emit, complain).run(read_lines(0)))
    await asyncio.wait([session, ended], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        session.result()
        return 0
    session.cancel()
    await asyncio.wait([session])
    return ended.result()
