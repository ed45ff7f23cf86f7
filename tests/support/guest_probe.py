"""Whether a machine's guest does anything, found out without speaking its protocol."""

from __future__ import annotations

import asyncio
import time

_PATIENCE_SECONDS = 60.0
_NONSENSE = b"\xff" * 64


async def answers(address: tuple[str, int], *, within_seconds: float = _PATIENCE_SECONDS) -> bool:
    """Send nonsense to a guest; a living one hangs up. A frozen one does not, or cannot be reached."""
    try:
        async with asyncio.timeout(within_seconds):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(_NONSENSE)
                await reader.read()
            finally:
                writer.close()
    except ConnectionResetError:
        return True
    except (TimeoutError, OSError):
        return False
    return True


async def wait_until_it_answers(
    address: tuple[str, int], *, deadline_seconds: float = _PATIENCE_SECONDS
) -> None:
    """Raises AssertionError when the guest has not answered by the deadline."""
    end = time.monotonic() + deadline_seconds
    while not await answers(address, within_seconds=1):
        assert time.monotonic() < end, f"no guest answers at {address}"
        await asyncio.sleep(0.01)
