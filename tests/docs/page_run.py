"""Running a page: its blocks one after the other, with what they leave for one another."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opencomputer import Sandbox
from tests.clients.environments import node, node_modules
from tests.docs.blocks import REPOSITORY, Block, blocks, expected_after, prints
from tests.docs.shell_of_page import BlockFailed, ShellOfPage

_SECONDS = 180.0
_BETWEEN = "\x00block\x00"
_BIN = REPOSITORY / ".venv/bin"
# Ids that pages show as examples: the page's own sandbox is meant.
_EXAMPLE_SANDBOX = re.compile(r"sb-(?:1a2b3c4d|…)")


@dataclass(frozen=True)
class Node:
    url: str
    key: str
    data: Path
    programs: Path
    """A folder with an `oc` for its commands."""


@dataclass(frozen=True)
class Adaptation:
    """What is different here than where the page is read."""

    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    """In the blocks; `$FOLDER` is where the page's commands run."""
    prepare: str = ""
    """A program that is run before the page, in Python; its names are the page's."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    check: Callable[[Mapping[str, Any], str], None] | None = None
    """Looks at the names and the output that the page has left."""


EVERYWHERE: Mapping[str, str] = {
    # No model is at hand, and no name can be resolved.
    'model="anthropic/claude-sonnet-5"': 'model="scripted/echo", runtime="scripted"',
    'model: "anthropic/claude-sonnet-5"': 'model: "scripted/echo", runtime: "scripted"',
    "https://example.com": "https://93.184.215.14",
    ". .venv/bin/activate\n": "",
}


class PageFailed(AssertionError):
    """A block of the page does not do what the page says."""


class PageRun:
    def __init__(self, page: str, node: Node, folder: Path, adaptation: Adaptation) -> None:
        self._blocks = blocks(page)
        self._node = node
        self._folder = folder
        self._adaptation = adaptation
        self._names: dict[str, Any] = {}
        self._printed: list[str] = []
        self._shell = ShellOfPage(folder, self._environment())
        self._sandbox: Sandbox | None = None

    async def run(self) -> None:
        """Raises PageFailed for the first block that fails or prints something else than the page says."""
        for name, content in self._adaptation.files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self._names["print"] = self._print
        try:
            await self._python(self._adaptation.prepare, "preparation")
            scripts: list[int] = []
            for index, block in enumerate(self._blocks):
                if block.runs and block.language == "ts":
                    scripts.append(index)
                elif block.runs:
                    self._compare(index, await self._guarded(block))
            if scripts:
                await self._typescript(scripts)
            if self._adaptation.check is not None:
                self._adaptation.check(self._names, "".join(self._printed))
        finally:
            await self._shell.close()
            if self._sandbox is not None:
                await self._sandbox.kill()
                await self._sandbox.close()

    async def _guarded(self, block: Block) -> str:
        if block.changes_the_machine:
            raise PageFailed(f"{block.place} would change this machine: mark it `norun`")
        try:
            async with asyncio.timeout(_SECONDS):
                run = self._commands if block.language == "sh" else self._program
                return await run(block)
        except BlockFailed as error:
            raise PageFailed(f"{block.place} fails:\n{block.source}\n{error}") from error
        except Exception as error:
            said = "".join(self._printed)[-2000:]
            raise PageFailed(f"{block.place}: {error!r}\n{block.source}\nprinted so far:\n{said}") from error

    async def _program(self, block: Block) -> str:
        source = self._adapted(block.source)
        if "sandbox" in _free_names(source) and "sandbox" not in self._names:
            self._names["sandbox"] = await self._own_sandbox()
        before = len(self._printed)
        await self._python(source, block.place)
        if "as sandbox:" in source:
            # It was killed when the block was left.
            self._names.pop("sandbox", None)
        return "".join(self._printed[before:])

    async def _python(self, source: str, place: str) -> None:
        code = compile(source, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if "asyncio.run(" in source:
            await asyncio.to_thread(eval, code, self._names)
            return
        result = eval(code, self._names)
        if inspect.isawaitable(result):
            await result

    async def _commands(self, block: Block) -> str:
        source = self._adapted(block.source)
        given = {name: str(value) for name, value in self._given()}
        if re.search(r"\$\{?(SB|SANDBOX)\b|sb-(1a2b3c4d|…)", source) and not re.search(r"^SB=", source, re.M):
            own = self._names.get("sandbox") or await self._own_sandbox()
            given |= {"SB": own.sandbox_id, "SANDBOX": own.sandbox_id}
        printed = await self._shell.run(_EXAMPLE_SANDBOX.sub("$SB", source), given)
        self._printed.append(printed)
        return printed

    def _given(self) -> list[tuple[str, object]]:
        """What the page's programs have made, for its commands."""
        names = self._names
        found = [
            (name.upper(), getattr(names.get(name), "id", None))
            for name in ("checkpoint", "agent", "session")
        ]
        if isinstance(store := names.get("store"), dict):
            found.append(("STORE", store["id"]))  # pyright: ignore[reportUnknownArgumentType]
        return [(name, value) for name, value in found if value is not None]

    async def _typescript(self, indices: list[int]) -> None:
        script = self._folder / "page.mts"
        between = f"\nconsole.log({_BETWEEN!r});\n".replace("\\x00", "\\u0000")
        script.write_text(between.join(self._adapted(self._blocks[index].source) for index in indices))
        modules = self._folder / "node_modules"
        modules.symlink_to(node_modules())
        process = await asyncio.create_subprocess_exec(
            str(node("24")),
            str(script),
            cwd=self._folder,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                printed, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise PageFailed(f"{self._blocks[0].page}: the TypeScript of this page fails:\n{said.decode()}")
        for index, text in zip(indices, printed.decode().split(_BETWEEN), strict=True):
            self._printed.append(text)
            self._compare(index, text)

    def _compare(self, index: int, printed: str) -> None:
        expected = expected_after(self._blocks, index)
        if expected is not None and not prints(expected, printed):
            raise PageFailed(f"{self._blocks[index].place} prints\n{printed}\nand not\n{expected}")

    def _adapted(self, source: str) -> str:
        replaced = {"http://127.0.0.1:8080": self._node.url, **EVERYWHERE, **self._adaptation.replaced}
        for there, here in replaced.items():
            source = source.replace(there, here.replace("$FOLDER", str(self._folder)))
        return source

    async def _own_sandbox(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = await Sandbox.create(api_url=self._node.url, api_key=self._node.key)
        return self._sandbox

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self._node.programs}:{_BIN}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "OPENCOMPUTER_API_URL": self._node.url,
            "OPENCOMPUTER_API_KEY": self._node.key,
            "ANTHROPIC_API_KEY": "sk-ant-of-nobody",
            # Commands that administer the node of this machine mean this one.
            "OPENCOMPUTER_DATA": str(self._node.data),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def _print(self, *values: object, sep: str = " ", end: str = "\n", **_: object) -> None:
        self._printed.append(sep.join(str(value) for value in values) + end)


def _free_names(source: str) -> set[str]:
    return {each.id for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name)}
