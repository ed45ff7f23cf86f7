"""The tools: what each promises a model, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import Field

from opencomputer.cli.mcp.running import Command, run
from opencomputer.cli.mcp.sandboxes import Sandboxes
from opencomputer.sdk.sandbox import Sandbox

MAX_FILE_BYTES = 256 << 10
_MAX_ENTRIES = 500
_READ = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_CHANGE = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_RUN = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
_DESTROY = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

Result = dict[str, Any]
SandboxId = Annotated[
    str | None, Field(description="Which sandbox (sb-…). May be left out while there is only one.")
]
_Path = Annotated[str, Field(description="Absolute, or relative to the home folder /home/sandbox.")]


@dataclass(frozen=True)
class ToolSpec:
    """One tool. `many`: it is about more than one sandbox, and not offered where there is only one."""

    function: Callable[..., Awaitable[Result]]
    title: str
    annotations: ToolAnnotations
    many: bool = False


class Tools:
    """Their docstrings and parameters are what a model reads."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def specs(self) -> list[ToolSpec]:
        return [
            ToolSpec(self.create_sandbox, "Create a sandbox", _CHANGE, many=True),
            ToolSpec(self.list_sandboxes, "List sandboxes", _READ, many=True),
            ToolSpec(self.run_command, "Run a command", _RUN),
            ToolSpec(self.read_file, "Read a file", _READ),
            ToolSpec(self.write_file, "Write a file", _DESTROY),
            ToolSpec(self.list_files, "List a folder", _READ),
            ToolSpec(self.fork_sandbox, "Copy a running sandbox", _CHANGE, many=True),
            ToolSpec(self.create_checkpoint, "Save the sandbox's state", _CHANGE),
            ToolSpec(self.list_checkpoints, "List saved states", _READ),
            ToolSpec(self.restore_checkpoint, "Go back to a saved state", _DESTROY),
            ToolSpec(self.hibernate_sandbox, "Put a sandbox to sleep", _CHANGE),
            ToolSpec(self.wake_sandbox, "Wake a sandbox", _CHANGE),
            ToolSpec(self.get_preview_url, "Get the address of a port", _CHANGE),
            ToolSpec(self.kill_sandbox, "Kill a sandbox", _DESTROY, many=True),
        ]

    async def create_sandbox(
        self,
        template: Annotated[str, Field(description="What it is made from.")] = "base",
        memory_mb: Annotated[int | None, Field(description="1024, 4096, 8192 or 16384.")] = None,
        idle_timeout_seconds: Annotated[
            int, Field(ge=0, description="Put it to sleep after so long without use; 0 for never.")
        ] = 1800,
        environment: Annotated[
            dict[str, str] | None, Field(description="Variables of every process in it.")
        ] = None,
    ) -> Result:
        """Create an isolated Linux machine with Python, Node.js, git and a shell. Takes under a second.

        It keeps its files until it is killed. What is used again after it went to sleep goes on as it was.
        """
        access = self._sandboxes.access

        async def create() -> list[Sandbox]:
            options = (template, idle_timeout_seconds, access.api_key, access.api_url, environment)
            return [await Sandbox.create(*options, {"madeBy": "oc mcp"}, memory_mb=memory_mb)]

        (sandbox,) = await self._sandboxes.add(create())
        return {"sandbox_id": sandbox.sandbox_id, "status": sandbox.status}

    async def list_sandboxes(self) -> Result:
        """List the sandboxes that are not killed, newest first, and which of them were made here."""
        access = self._sandboxes.access
        listed = await Sandbox.list(access.api_key, access.api_url)
        return {
            "sandboxes": [
                {
                    "sandbox_id": each.get("sandboxID"),
                    "status": each.get("status"),
                    "template": each.get("templateID"),
                    "started_at": each.get("startedAt"),
                    "made_here": each.get("sandboxID") in self._sandboxes.made,
                }
                for each in listed[:_MAX_ENTRIES]
            ]
        }

    async def run_command(
        self,
        command: Annotated[str, Field(description="A line for `sh`.")],
        context: Context,
        sandbox_id: SandboxId = None,
        cwd: Annotated[str | None, Field(description="The folder to run it in; the home by default.")] = None,
        timeout_seconds: Annotated[int, Field(ge=1, le=3600, description="Kill it after so long.")] = 120,
        environment: Annotated[dict[str, str] | None, Field(description="Variables for it.")] = None,
    ) -> Result:
        """Run a command in a sandbox and wait for its end. There is no terminal and no input.

        Each call begins in a new shell: variables and `cd` do not last, files do. Start what should go on
        with `nohup … &`. Of long output the middle is left out.
        """
        sandbox = await self._sandboxes.get(sandbox_id)

        async def progress(seconds: float, message: str) -> None:
            await context.report_progress(seconds, float(timeout_seconds), message)

        wanted = Command(command, timeout_seconds, cwd, environment)
        outcome = await run(sandbox, wanted, progress)
        result: Result = {
            "exit_code": outcome.exit_code,
            "stdout": outcome.stdout,
            "stderr": outcome.stderr,
        }
        if outcome.timed_out:
            result["note"] = (
                f"It was killed after {timeout_seconds} seconds; raise timeout_seconds if need be."
            )
        return result

    async def read_file(
        self,
        path: _Path,
        sandbox_id: SandboxId = None,
        offset: Annotated[int, Field(ge=0, description="The byte to begin with.")] = 0,
    ) -> Result:
        """Read a text file of a sandbox, at most 256 KiB at a time; `next_offset` says where it goes on."""
        sandbox = await self._sandboxes.get(sandbox_id)
        content, skip = bytearray(), offset
        async with aclosing(sandbox.files.read_stream(path)) as pieces:
            async for piece in pieces:
                content += piece[skip:]
                skip = max(0, skip - len(piece))
                if len(content) > MAX_FILE_BYTES:
                    break
        end = _end_of_page(content)
        result: Result = {"path": path, "content": content[:end].decode("utf-8", errors="replace")}
        if len(content) > end:
            result["next_offset"] = offset + end
        return result

    async def write_file(
        self,
        path: _Path,
        content: Annotated[str, Field(description="All of the file, as text.")],
        sandbox_id: SandboxId = None,
    ) -> Result:
        """Create or replace a file of a sandbox. Folders that are missing are made."""
        sandbox = await self._sandboxes.get(sandbox_id)
        await sandbox.files.write(path, content)
        return {"path": path, "bytes": len(content.encode())}

    async def list_files(self, path: _Path = ".", sandbox_id: SandboxId = None) -> Result:
        """List a folder of a sandbox, at most 500 entries of it."""
        sandbox = await self._sandboxes.get(sandbox_id)
        entries = await sandbox.files.list(path)
        shown = [
            {"name": each.name, "is_folder": each.is_dir, "bytes": each.size}
            for each in entries[:_MAX_ENTRIES]
        ]
        return {"path": path, "entries": shown, "left_out": max(0, len(entries) - _MAX_ENTRIES)}

    async def fork_sandbox(
        self,
        sandbox_id: SandboxId = None,
        count: Annotated[int, Field(ge=1, le=8, description="How many copies.")] = 1,
    ) -> Result:
        """Copy a running sandbox with files, memory and processes; it goes on, and so does each copy.

        For trying several ways from the same point. Name the sandbox by sandbox_id from then on.
        """
        sandbox = await self._sandboxes.get(sandbox_id)
        copies = await self._sandboxes.add(sandbox.fork(count))
        return {"source": sandbox.sandbox_id, "sandbox_ids": [each.sandbox_id for each in copies]}

    async def create_checkpoint(
        self,
        name: Annotated[str, Field(description="What it is called.")],
        sandbox_id: SandboxId = None,
    ) -> Result:
        """Save files, memory and processes of a sandbox, to go back to with restore_checkpoint."""
        sandbox = await self._sandboxes.get(sandbox_id)
        checkpoint = await sandbox.create_checkpoint(name)
        await checkpoint.wait_until_ready()
        return {"checkpoint_id": checkpoint.id, "name": checkpoint.name, "sandbox_id": sandbox.sandbox_id}

    async def list_checkpoints(self, sandbox_id: SandboxId = None) -> Result:
        """List the saved states of a sandbox, newest first."""
        sandbox = await self._sandboxes.get(sandbox_id)
        found = await sandbox.list_checkpoints()
        return {
            "checkpoints": [
                {"checkpoint_id": each.id, "name": each.name, "status": each.status} for each in found
            ]
        }

    async def restore_checkpoint(
        self,
        checkpoint_id: Annotated[str, Field(description="As create_checkpoint returned it.")],
        sandbox_id: SandboxId = None,
    ) -> Result:
        """Take a sandbox back to a saved state. Everything that happened in it since then is lost."""
        sandbox = await self._sandboxes.get(sandbox_id)
        await sandbox.restore_checkpoint(checkpoint_id)
        return {"sandbox_id": sandbox.sandbox_id, "restored": checkpoint_id}

    async def hibernate_sandbox(self, sandbox_id: SandboxId = None) -> Result:
        """Put a sandbox to sleep, with files, memory and processes. Any use of it wakes it again."""
        sandbox = await self._sandboxes.get(sandbox_id)
        await sandbox.hibernate()
        return {"sandbox_id": sandbox.sandbox_id, "status": sandbox.status}

    async def wake_sandbox(self, sandbox_id: SandboxId = None) -> Result:
        """Wake a sandbox that sleeps. Not needed before other tools, which do it by themselves."""
        sandbox = await self._sandboxes.get(sandbox_id)
        await sandbox.wake()
        return {"sandbox_id": sandbox.sandbox_id, "status": sandbox.status}

    async def get_preview_url(
        self,
        port: Annotated[int, Field(ge=1, le=65535, description="What a program in it listens on.")],
        sandbox_id: SandboxId = None,
    ) -> Result:
        """Get the address at which a program in a sandbox that listens on a port is reached from outside."""
        sandbox = await self._sandboxes.get(sandbox_id)
        record = await sandbox.create_preview_url(port)
        return {"port": port, "url": record.get("url") or f"https://{record.get('hostname', '')}"}

    async def kill_sandbox(
        self, sandbox_id: Annotated[str, Field(description="Which sandbox (sb-…).")]
    ) -> Result:
        """End a sandbox for good, with all its files. Kill what is not needed any more."""
        sandbox = await self._sandboxes.get(sandbox_id)
        await sandbox.kill()
        await self._sandboxes.forget(sandbox_id)
        return {"sandbox_id": sandbox_id, "killed": True}


def _end_of_page(content: bytearray) -> int:
    """How much of it is shown: all, or so much that no character of UTF-8 is torn in two."""
    if len(content) <= MAX_FILE_BYTES:
        return len(content)
    inside = (at for at in range(MAX_FILE_BYTES, MAX_FILE_BYTES - 4, -1) if content[at] & 0xC0 != 0x80)
    return next(inside, MAX_FILE_BYTES)
