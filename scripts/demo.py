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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
from rich.console import Console
from rich.markup import escape

from opencomputer import AgentEvent, Sandbox

RUN_FOLDER = Path(__file__).resolve().parent.parent / ".run"
PID_FILE = RUN_FOLDER / "node.json"
LOG_FILE = RUN_FOLDER / "node.log"
LOCAL_NODE = Path("/var/lib/opencomputer/local-node.json")
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


def running_node() -> int | None:
    """The process that an earlier `make run` left running."""
    try:
        noted = json.loads(PID_FILE.read_text())
    except (OSError, ValueError):
        return None
    return noted["pid"] if start_ticks(noted["pid"]) == noted["started"] else None


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


def start_node() -> None:
    """Start `oc serve` so that it outlives us, and wait until it is ready."""
    RUN_FOLDER.mkdir(exist_ok=True)
    environment = {**os.environ, **model_environment()}
    LOCAL_NODE.unlink(missing_ok=True)
    with LOG_FILE.open("ab") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("oc")), "serve"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    PID_FILE.write_text(json.dumps({"pid": process.pid, "started": start_ticks(process.pid)}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(
                f"The node did not start; the end of {LOG_FILE} says why:\n{LOG_FILE.read_text()[-1500:]}"
            )
        if LOCAL_NODE.exists() and is_ready(local_node()["apiUrl"]):
            return
        time.sleep(0.05)
    sys.exit(f"The node was not ready after {START_SECONDS:.0f} seconds; see {LOG_FILE}")


def local_node() -> Mapping[str, str]:
    return json.loads(LOCAL_NODE.read_text())


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


async def demonstrate() -> None:
    node = local_node()
    began = time.perf_counter()
    sandbox = await Sandbox.create(api_url=node["apiUrl"], api_key=node["apiKey"])
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
        f"\nThe node runs on at {node['apiUrl']} (log: {LOG_FILE}). Try next:\n"
        f"  .venv/bin/oc shell {sandbox.sandbox_id}\n"
        f'  .venv/bin/oc agent run {sandbox.sandbox_id} "Explain fizzbuzz.py"\n'
        f"  .venv/bin/oc ls\n"
        "and `make stop` ends it."
    )


def stop_node() -> None:
    """End the node of `make run` and its sandboxes; nothing else."""
    pid = running_node()
    if pid is None:
        console.print("No node of `make run` is running.")
        return
    node = local_node()
    with httpx.Client(base_url=f"{node['apiUrl']}/api", headers={"X-API-Key": node["apiKey"]}) as client:
        for sandbox in client.get("/sandboxes").json():
            client.delete(f"/sandboxes/{sandbox['sandboxID']}")
            console.print(f"ended {sandbox['sandboxID']}")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while start_ticks(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    PID_FILE.unlink(missing_ok=True)
    console.print("The node has ended.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stop", action="store_true", help="end the node that `make run` started")
    if parser.parse_args().stop:
        stop_node()
        return
    if running_node() is None:
        with step("Starting a node"):
            start_node()
    else:
        console.print(f"The node at {local_node()['apiUrl']} is running already.")
    try:
        asyncio.run(demonstrate())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
