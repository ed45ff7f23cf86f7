"""Inspect AI's sandbox interface over our own SDK."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, SandboxEnvironmentLimits

import opencomputer


class OpenComputerSandbox(SandboxEnvironment):
    """One sandbox. Relative paths and commands begin at the sandbox user's home."""

    def __init__(self, sandbox: opencomputer.Sandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]):
        return {"default": cls(await opencomputer.Sandbox.create(metadata={"task": task_name}))}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Any, interrupted: bool) -> None:
        for environment in environments.values():
            await environment._sandbox.kill()
            await environment._sandbox.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is not None:
            variables = [f"{name}={value}" for name, value in (env or {}).items()]
            cmd = ["sudo", "-n", "-u", user, "--", "/usr/bin/env", *variables, *cmd]
        if input is None:
            return await self._run(cmd, cwd, env, timeout)
        # A session's standard input has no end; a file has one.
        file = f"/tmp/.input-{secrets.token_hex(8)}"
        await self._sandbox.files.write(file, input)
        try:
            redirected = ["/bin/sh", "-c", 'exec "$@" < "$0"', file, *cmd]
            return await self._run(redirected, cwd, env, timeout)
        finally:
            await self._sandbox.files.remove(file)

    async def _run(
        self, cmd: list[str], cwd: str | None, env: dict[str, str] | None, timeout: int | None
    ) -> ExecResult[str]:
        stdout, stderr = bytearray(), bytearray()
        session = await self._sandbox.exec.start(
            cmd[0], args=cmd[1:], env=env, cwd=cwd, on_stdout=stdout.extend, on_stderr=stderr.extend
        )
        try:
            async with asyncio.timeout(timeout):
                code = await session.done
        except TimeoutError:
            await session.kill()
            raise
        finally:
            await session.close()
        result = ExecResult(code == 0, code, _text(stdout), _text(stderr))
        if code == 126 and "permission denied" in result.stderr.lower():
            raise PermissionError(result.stderr)
        return result

    async def write_file(self, file: str, contents: str | bytes) -> None:
        await self._require("-w", file)
        with _as_file_errors(file):
            await self._sandbox.files.write(file, contents)

    async def read_file(self, file: str, text: bool = True) -> Any:
        await self._require("-r", file)
        content = bytearray()
        with _as_file_errors(file):
            async for piece in self._sandbox.files.read_stream(file):
                content += piece
                if len(content) > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
                    raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return content.decode() if text else bytes(content)

    async def _require(self, right: str, file: str) -> None:
        """Our file API acts as root; Inspect wants what the sandbox user may do."""
        asked = ["/bin/sh", "-c", 'test ! -e "$1" || test "$0" "$1"', right, file]
        if not (await self._run(asked, None, None, None)).success:
            raise PermissionError(f"{file}: permission denied")


def _text(output: bytearray) -> str:
    if len(output) > SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE:
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, None)
    return output.decode(errors="replace")


@contextmanager
def _as_file_errors(file: str) -> Iterator[None]:
    try:
        yield
    except opencomputer.NotFoundError as error:
        raise FileNotFoundError(file) from error
    except opencomputer.ValidationError as error:
        raise IsADirectoryError(f"{file} is a directory") from error
