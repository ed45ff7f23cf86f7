"""A browser at a development server behind a preview: opened by a grant, changed live.

The browser is the distribution's Chromium, the server is Vite from npm; `tests.clients.environments` installs
both. With OPENCOMPUTER_TEST_SCREENSHOT it leaves what it saw in that file.
"""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import os
import subprocess
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from opencomputer import Sandbox
from tests.clients import environments
from tests.support.driver_harness import why_no_gvisor
from tests.support.server import running_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.machines, pytest.mark.timeout(300)]

PORT = 5173
PAGE = """<!doctype html><meta charset="utf-8"><title>A preview</title>
<style>body { font: 24px/1.3 system-ui, sans-serif; margin: 40px; } p { color: #555; }</style>
<h1></h1><p>Served by Vite inside a sandbox, opened by a grant.</p>
<script type="module" src="/main.js"></script>
"""
MAIN = """import { words } from "./words.js";
document.querySelector("h1").textContent = words;
window.loads = (window.loads ?? 0) + 1;
import.meta.hot.accept("./words.js", (next) => {
  document.querySelector("h1").textContent = next.words;
});
"""


class Tab:
    """One page of a browser, over its debugging protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(await self._socket.recv())
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    async def value(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")


@asynccontextmanager
async def browser(profile: Path) -> AsyncGenerator[Tab]:
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=900,420")
    program = ("chromium", *options, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank")
    process = await asyncio.create_subprocess_exec(
        *program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        port_file = profile / "DevToolsActivePort"

        async def page() -> str:
            if not port_file.exists() or not (lines := port_file.read_text().split()):
                return ""
            async with httpx.AsyncClient() as client:
                pages = (await client.get(f"http://127.0.0.1:{lines[0]}/json")).json()
            return next((each["webSocketDebuggerUrl"] for each in pages if each["type"] == "page"), "")

        address = await eventually(page, "that the browser is there")
        async with connect(address, max_size=64 << 20, proxy=None, open_timeout=60) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        await process.wait()


def packed(modules: Path) -> bytes:
    """The installed packages and the project, as an archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(modules, "site/node_modules")
        for name, text in {"index.html": PAGE, "main.js": MAIN, "words.js": words("Hello")}.items():
            entry = tarfile.TarInfo(f"site/{name}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return archive.getvalue()


def words(text: str) -> str:
    return f"export const words = {json.dumps(text)};\n"


async def test_a_browser_sees_a_change_live(tmp_path: Path) -> None:
    if missing := why_no_gvisor():
        pytest.skip(missing)
    if environments.chromium() is None:
        pytest.skip("there is no browser on this machine, and it cannot be installed")
    archive = await asyncio.to_thread(packed, environments.vite_modules())
    with running_server(tmp_path / "node") as server:
        async with Sandbox.create(api_url=server.url, api_key=server.api_key, preview_auth={}) as sandbox:
            await sandbox.files.write("site.tar", archive)
            assert (await sandbox.exec.run("tar xf site.tar")).exit_code == 0
            serve = f"cd site && exec node node_modules/vite/bin/vite.js --host 127.0.0.1 --port {PORT}"
            said = bytearray()
            await sandbox.exec.start("sh", args=["-c", serve], on_stdout=said.extend)
            await eventually(lambda: b"Local:" in said, "that the development server listens")
            grant = await sandbox.create_preview_grant(PORT)
            async with browser(tmp_path / "profile") as tab:
                await visit(tab, sandbox, str(grant["url"]))


async def visit(tab: Tab, sandbox: Sandbox, url: str) -> None:
    await tab.call("Page.navigate", url=url)

    async def shows(text: str) -> bool:
        return await tab.value("document.querySelector('h1')?.textContent") == text

    await eventually(lambda: shows("Hello"), "that the page is there")
    assert "oc_preview_grant" not in await tab.value("location.href")
    assert "oc-preview" not in await tab.value("document.cookie")
    changed = "Changed while you were looking"
    await sandbox.files.write("site/words.js", words(changed))
    await eventually(lambda: shows(changed), "that the change is seen")
    # The page was not loaded again: the change came over the WebSocket.
    assert await tab.value("window.loads") == 1
    if target := os.environ.get("OPENCOMPUTER_TEST_SCREENSHOT"):
        shot = await tab.call("Page.captureScreenshot", format="png")
        Path(target).write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240
