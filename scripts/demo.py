"""`make run` and `make stop`: a node on this machine, and an agent with a small real task in a sandbox."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx
from rich.console import Console
from rich.markup import escape

from opencomputer import AgentEvent, Sandbox

RUN_FOLDER = Path(__file__).resolve().parent.parent / ".run"
NODE_FILE = RUN_FOLDER / "node.json"
LOG_FILE = RUN_FOLDER / "node.log"
LOCAL_NODE = Path(os.environ.get("OPENCOMPUTER_LOCAL_NODE_FILE") or "/var/lib/opencomputer/local-node.json")
TASK = "Write fizzbuzz.py with tests and run them"
START_SECONDS = 60.0
STOP_SECONDS = 60.0

console = Console(highlight=False)


@contextmanager
def step(title: str) -> Generator[None]:
    """Say what happens and how long it took."""
    console.print(f"[bold]{title}[/bold]")
    began = time.perf_counter()
    yield
    console.print(f"  [dim]{(time.perf_counter() - began) * 1000:,.0f} ms[/dim]")


def start_ticks(pid: int) -> str | None:
    """When a process began, which tells it from a later one with the same number. None: it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else ticks


@dataclass(frozen=True)
class Node:
    """A node of `make run`: its process, and where it answers once it has said so."""

    pid: int
    started: str | None
    url: str = ""
    key: str = ""

    def is_running(self) -> bool:
        return self.started is not None and start_ticks(self.pid) == self.started

    def write_down(self) -> None:
        """Remember it for `make stop`, for nobody else to read: the key is in it."""
        NODE_FILE.touch(mode=0o600)
        NODE_FILE.chmod(0o600)
        NODE_FILE.write_text(json.dumps(asdict(self)))


def known_node() -> Node | None:
    """What an earlier `make run` has started, whether it still runs or not."""
    try:
        return Node(**json.loads(NODE_FILE.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def model_environment() -> Mapping[str, str]:
    if os.environ.get("OPENCOMPUTER_ANTHROPIC_API_KEY") or os.environ.get("OPENCOMPUTER_MODEL_PROVIDER"):
        return {}
    console.print(
        "[yellow]No model key is set, so a script plays the model; everything else is real.[/yellow]\n"
        "  Set OPENCOMPUTER_ANTHROPIC_API_KEY and run `make stop run` for a real one."
    )
    return {"OPENCOMPUTER_MODEL_PROVIDER": "scripted"}


def start_node() -> Node:
    """Start `oc serve` so that it outlives us, and wait until it is ready."""
    RUN_FOLDER.mkdir(exist_ok=True)
    environment = {**os.environ, **model_environment()}
    earlier = version_of(LOCAL_NODE)
    with LOG_FILE.open("ab") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("oc")), "serve"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    node = Node(process.pid, start_ticks(process.pid))
    node.write_down()
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(
                f"The node did not start; the end of {LOG_FILE} says why:\n{LOG_FILE.read_text()[-1500:]}"
            )
        if version_of(LOCAL_NODE) not in (None, earlier):
            told = json.loads(LOCAL_NODE.read_text())
            if is_ready(told["apiUrl"]):
                node = replace(node, url=told["apiUrl"], key=told["apiKey"])
                node.write_down()
                return node
        time.sleep(0.05)
    sys.exit(f"The node was not ready after {START_SECONDS:.0f} seconds; see {LOG_FILE}")


def version_of(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written anew; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def show(event: AgentEvent) -> None:
    """One agent event as a person would want to read it."""
    message = event.get("message")
    if event.type not in ("assistant", "user") or not isinstance(message, Mapping):
        return
    content = cast("Mapping[str, object]", message).get("content")
    for block in cast("list[dict[str, Any]]", content) if isinstance(content, list) else []:
        match block.get("type"):
            case "text":
                console.print(f"  [cyan]agent[/cyan]   {shortened(block['text'])}")
            case "tool_use":
                console.print(f"  [magenta]{block['name']:<7}[/magenta] {shortened(summary(block['input']))}")
            case "tool_result":
                console.print(f"  [dim]result  {shortened(str(block.get('content', '')))}[/dim]")
            case _:
                pass


def summary(arguments: Mapping[str, object]) -> str:
    return str(arguments.get("command") or arguments.get("file_path") or json.dumps(arguments))


def shortened(text: str, length: int = 300) -> str:
    flat = text.strip().replace("\n", "\n          ")
    return escape(flat if len(flat) <= length else flat[:length] + " …")


async def demonstrate(node: Node) -> None:
    began = time.perf_counter()
    sandbox = await Sandbox.create(api_url=node.url, api_key=node.key)
    created = time.perf_counter()
    try:
        console.print(
            f"[bold]Sandbox {sandbox.sandbox_id}[/bold]  [dim]{(created - began) * 1000:,.0f} ms[/dim]"
        )
        with step(f"Agent: {TASK}"):
            session = await sandbox.agent.start(prompt=TASK, on_event=show)
            code = await session.wait()
            await session.close()
        if code != 0:
            sys.exit(f"The agent's turn ended with {code}.")
        with step("What it made"):
            for entry in await sandbox.files.list("/home/sandbox"):
                if entry.name.endswith(".py"):
                    console.print(f"  {entry.path}  [dim]{entry.size} bytes[/dim]")
        with step("python3 fizzbuzz.py | head -5"):
            result = await sandbox.exec.run("python3 fizzbuzz.py | head -5")
            console.print(f"  {escape(result.stdout.strip())}".replace("\n", "\n  "))
    finally:
        await sandbox.close()
    console.print(
        f"\nThe node runs on at {node.url} (log: {LOG_FILE}). Try next:\n"
        f"  .venv/bin/oc shell {sandbox.sandbox_id}\n"
        f'  .venv/bin/oc agent run {sandbox.sandbox_id} "Explain fizzbuzz.py"\n'
        f"  .venv/bin/oc ls\n"
        "and `make stop` ends it with all its sandboxes."
    )


def stop_node() -> None:
    """End the node of `make run` and its sandboxes; nothing else."""
    node = known_node()
    if node is None:
        console.print("No node of `make run` is running.")
        return
    if not node.is_running():
        console.print(
            "The node of `make run` has died. Its sandboxes go on if there are any:\n"
            "`make run` takes them over, and `make stop` after that ends them."
        )
        return
    end_sandboxes(node)
    with suppress(ProcessLookupError):
        os.kill(node.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while node.is_running():
        if time.monotonic() > deadline:
            sys.exit(f"The node (process {node.pid}) has not ended; see {LOG_FILE}")
        time.sleep(0.05)
    NODE_FILE.unlink(missing_ok=True)
    console.print("The node has ended.")


def end_sandboxes(node: Node) -> None:
    """Kill all that the node has, as far as it can be asked to."""
    headers = {"X-API-Key": node.key}
    try:
        with httpx.Client(base_url=f"{node.url}/api", headers=headers, timeout=STOP_SECONDS) as client:
            for sandbox in client.get("/sandboxes").raise_for_status().json():
                client.delete(f"/sandboxes/{sandbox['sandboxID']}").raise_for_status()
                console.print(f"ended {sandbox['sandboxID']}")
    except httpx.HTTPError as error:
        console.print(f"[yellow]Some sandboxes could not be ended and go on:[/yellow] {escape(str(error))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stop", action="store_true", help="end the node that `make run` started")
    if parser.parse_args().stop:
        stop_node()
        return
    node = known_node()
    if node is None or not node.is_running():
        with step("Starting a node"):
            node = start_node()
    else:
        console.print(f"The node at {node.url} is running already.")
    try:
        asyncio.run(demonstrate(node))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
