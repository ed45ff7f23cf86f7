"""Inspect AI's sandboxes, as `sandbox="opencomputer"`. Inspect finds this module by its entry point.

The server is that of `OPENCOMPUTER_API_URL` and `OPENCOMPUTER_API_KEY`. Inspect must use asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, cast, overload

import anyio
import httpx
import yaml
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict
from typing_extensions import override

from opencomputer.integrations.access import file_errors, require
from opencomputer.integrations.programs import Limits, Program, ProgramLost, run
from opencomputer.sdk.errors import NotFoundError, SandboxStoppedError
from opencomputer.sdk.sandbox import Sandbox

_NAME = "opencomputer"
_MADE_BY = {"createdBy": "inspect_ai"}
_CLEANUP_SECONDS = 60.0
_POLLING_SECONDS = 0.2
_NOT_EXECUTABLE = 126

_running: ContextVar[dict[str, Sandbox] | None] = ContextVar("opencomputer_running", default=None)


class OpenComputerConfig(BaseModel):
    """What the sandboxes of a task or sample are made from: the options of `Sandbox.create`.

    `image` is a recipe as `Image.to_dict()` gives it, built when the first sample needs it. `environments`
    names several sandboxes, the default first; each begins with the options around them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str = "base"
    image: dict[str, Any] | None = None
    snapshot: str | None = None
    memory_mb: int | None = None
    cpu_count: int | None = None
    disk_mb: int | None = None
    envs: dict[str, str] | None = None
    secret_store: str | None = None
    egress_allowlist: list[str] | None = None
    environments: dict[str, OpenComputerConfig] | None = None

    def options(self) -> dict[str, Any]:
        """The arguments for `Sandbox.create`."""
        return self.model_dump(exclude={"environments"}, exclude_none=True)


@sandboxenv(name=_NAME)  # pyright: ignore[reportUntypedClassDecorator] - it returns the class
class OpenComputerSandbox(SandboxEnvironment):
    """One sandbox of a sample. Relative paths and commands begin at the sandbox user's home."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self.sandbox = sandbox

    @override
    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        _settings(config)
        if _running.get() is None:
            _running.set({})

    @override
    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        settings = _settings(config)
        around = settings.options()
        named = settings.environments or {"default": settings}
        made: dict[str, SandboxEnvironment] = {}
        try:
            for name, each in named.items():
                options = around | each.model_dump(exclude={"environments"}, exclude_unset=True)
                made[name] = cls(await _create(task_name, options))
        except BaseException:
            await cls.sample_cleanup(task_name, config, made, True)
            raise
        return made

    @override
    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        await _kill([each.as_type(OpenComputerSandbox).sandbox for each in environments.values()])

    @override
    @classmethod
    async def task_cleanup(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool
    ) -> None:
        left = list((_running.get() or {}).values())
        if cleanup:
            await _kill(left)
        elif left:
            names = " ".join(sandbox.sandbox_id for sandbox in left)
            print(f"Sandboxes that are still there: {names}\nTo remove them: inspect sandbox cleanup {_NAME}")
            await asyncio.gather(*(sandbox.close() for sandbox in left))

    @override
    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Kill one sandbox, or all of them that Inspect has made, whoever's they are."""
        listed = await Sandbox.list()
        found = [each for each in listed if (each["sandboxID"] == id if id else _is_ours(each))]
        if id and not found:
            print(f"there is no sandbox {id}")
        for each in found:
            await _kill([await Sandbox.connect(str(each["sandboxID"]))])
            print(f"removed {each['sandboxID']}")

    @override
    @classmethod
    def config_files(cls) -> list[str]:
        return [f"{_NAME}.yaml", f"{_NAME}.yml", f"{_NAME}.json"]

    @override
    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return OpenComputerConfig.model_validate(config)

    @override
    def default_polling_interval(self) -> float:
        return _POLLING_SECONDS

    @override
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
        """Run a command. It is killed when it writes more than may be kept; a late one is not repeated."""
        given = input.encode() if isinstance(input, str) else input
        limits = Limits(timeout, SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE, stop_at_limit=True)
        async with _reachable():
            ended = await run(self.sandbox, Program(cmd, given, cwd, env or {}, user), limits)
        stdout, stderr = (output.decode(errors="replace") for output in (ended.stdout, ended.stderr))
        if ended.truncated:
            longest = max(stdout, stderr, key=len)
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, longest)
        if ended.exit_code == _NOT_EXECUTABLE and "permission denied" in stderr.lower():
            raise PermissionError(stderr)
        return ExecResult(ended.exit_code == 0, ended.exit_code, stdout, stderr)

    @override
    async def write_file(self, file: str, contents: str | bytes) -> None:
        async with _reachable():
            await require(self.sandbox, "-w", file)
            with file_errors(file):
                await self.sandbox.files.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    @override
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        content = bytearray()
        async with _reachable():
            await require(self.sandbox, "-r", file)
            with file_errors(file):
                async for piece in self.sandbox.files.read_stream(file):
                    content += piece
                    if len(content) > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
                        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return content.decode() if text else bytes(content)

    @override
    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        if user is not None:
            raise NotImplementedError("terminals are the sandbox user's; use `sudo` in them")
        if not await self.sandbox.is_running():
            raise ConnectionError(f"sandbox {self.sandbox.sandbox_id} is not running")
        command = f"oc shell {self.sandbox.sandbox_id}"
        return SandboxConnection(type=_NAME, command=command, container=self.sandbox.sandbox_id)


def _settings(config: SandboxEnvironmentConfigType | None) -> OpenComputerConfig:
    match config:
        case None:
            return OpenComputerConfig()
        case OpenComputerConfig():
            return config
        case str():
            return OpenComputerConfig.model_validate(yaml.safe_load(Path(config).read_text()) or {})
        case _:
            raise TypeError(
                f"{_NAME}: a configuration is an OpenComputerConfig or the name of a file with one"
            )


async def _create(task_name: str, options: Mapping[str, Any]) -> Sandbox:
    sandbox = await Sandbox.create(metadata={**_MADE_BY, "task": task_name}, **options)
    running = _running.get()
    if running is not None:
        running[sandbox.sandbox_id] = sandbox
    return sandbox


async def _kill(sandboxes: Iterable[Sandbox]) -> None:
    """Kill them all, also when the caller is cancelled. One that fails does not keep the others alive."""
    with anyio.fail_after(_CLEANUP_SECONDS, shield=True):
        failures = await asyncio.gather(*(_end(each) for each in sandboxes), return_exceptions=True)
    for failure in failures:
        if failure is not None:
            raise failure


async def _end(sandbox: Sandbox) -> None:
    """One that cannot be killed now stays open: the end of the task tries again."""
    await sandbox.kill()
    (_running.get() or {}).pop(sandbox.sandbox_id, None)
    await sandbox.close()


def _is_ours(description: Mapping[str, object]) -> bool:
    metadata = cast("Mapping[str, object]", description.get("metadata") or {})
    return _MADE_BY.items() <= metadata.items()


@asynccontextmanager
async def _reachable() -> AsyncGenerator[None]:
    """Tell Inspect when it is the sandbox that failed, and not what was done in it."""
    try:
        yield
    except (SandboxStoppedError, NotFoundError, ProgramLost, httpx.TransportError) as error:
        raise SandboxUnavailableError(str(error)) from error
