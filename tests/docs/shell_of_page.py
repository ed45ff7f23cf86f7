"""One bash for the commands of a page, so that what one block sets is there in the next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

_SECONDS = 120.0
_MARK = b"\x00done\x00"


class BlockFailed(Exception):
    """A command ended with another code than 0; the message is what was said."""


class ShellOfPage:
    """Ends with the first command that fails, as a script with `set -e` does."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._count = 0

    async def run(self, source: str, given: Mapping[str, str]) -> str:
        """What the commands print, to both outputs. Variables that are `given` and set already stay."""
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        self._count += 1
        script = self._folder / f".block-{self._count}.sh"
        script.write_text(source)
        lines = [f": ${{{name}:={text}}}; export {name}" for name, text in given.items()]
        lines += [f". {script} < /dev/null", r"printf '\0done\0'"]
        process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        printed = b""
        async with asyncio.timeout(_SECONDS):
            while not printed.endswith(_MARK):
                more = await process.stdout.read(65536)
                if not more:
                    raise BlockFailed(printed.decode(errors="replace"))
                printed += more
        return printed.removesuffix(_MARK).decode(errors="replace")

    async def close(self) -> None:
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *("bash", "--norc", "-eu", "-o", "pipefail"),
                cwd=self._folder,
                env=dict(self._environment),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        return self._process
