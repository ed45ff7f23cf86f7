"""A process with the log and its routes that appends until it is killed: `python -m … FILE SESSION`.

It says what is committed, one line of JSON per append, and only after the append has returned.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.logs import configure_logs
from opencomputer.wire.ids import SessionId
from tests.support import session_rows as new
from tests.support.log_server import log_server

_LIFE = timedelta(hours=1)


async def _run(file: Path, session: str | None) -> None:
    async with log_server(file) as server:
        chosen = SessionId(session) if session else (await server.session()).id
        _say({"url": server.url, "key": server.client.headers["X-API-Key"], "session": chosen})
        await _append(server.tables, chosen)


async def _append(tables: SessionTables, session: SessionId) -> None:
    """Go on where the one before was killed, under the next number that the log does not have yet."""
    found = await tables.sessions.find(session)
    assert found is not None
    # Who was killed cannot let go: its lease is over an hour later.
    now = new.at() + _LIFE * (found.epoch + 1)
    claim = await tables.turns.claim(session, "me", now, now + _LIFE / 2)
    assert claim is not None
    await tables.turns.begin(claim, now, now + _LIFE)
    number = len(await tables.turns.keys(claim, "rt:"))
    while True:
        # Every one is sent twice, as somebody does who did not hear the answer.
        batch = [
            new.said(str(number + each), key=f"rt:{number + each}", level=Level.USER) for each in range(3)
        ]
        for _ in range(2):
            await tables.turns.append(claim, batch, now)
        number += len(batch)
        _say({"committed": number})


def _say(document: dict[str, object]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    configure_logs("warning")
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
