"""The metadata service: a machine learns about itself, about nobody else, and is known by its address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from opencomputer.server.http.metadata import create_metadata_app
from opencomputer.server.models.scripted import ScriptedModel
from opencomputer.server.services.device_logins import DeviceLogins
from opencomputer.server.services.facade import (
    Presentation,
    PreviewServices,
    Services,
    UsageServices,
)
from opencomputer.server.services.sandboxes.agents import Agents
from opencomputer.server.services.sandboxes.audit import Audit
from opencomputer.server.services.sandboxes.file_urls import FileUrls
from opencomputer.server.services.sandboxes.gateway import ModelGateway
from opencomputer.server.services.sandboxes.images import Images
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.logs import Logs
from opencomputer.server.services.sandboxes.named_snapshots import NamedSnapshots
from opencomputer.server.services.sandboxes.scaling import AutoscaleRequest
from opencomputer.server.services.sandboxes.sessions import Sessions
from opencomputer.server.services.sandboxes.webhook_services import WebhookServices
from opencomputer.server.services.sessions.facade import DurableServices
from opencomputer.server.services.sessions.model_access import SessionModels
from tests.support.virtual_time import VirtualClock, virtual_backend
from tests.unit.server.services.harness import ORG, Node, Process

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_backend()


# Machines that are no session's need nothing of this.
MODELS_OF_NOBODY: Any = object()


def _only(models: SessionModels) -> DurableServices:
    durable = object.__new__(DurableServices)
    object.__setattr__(durable, "models", models)
    return durable


# Nothing inside a machine asks for these.
_NOT_ASKED_FOR: dict[str, Any] = {
    "usage": object.__new__(UsageServices),
    "device_logins": object.__new__(DeviceLogins),
    "previews": object.__new__(PreviewServices),
    "webhooks": object.__new__(WebhookServices),
    "images": object.__new__(Images),
    "snapshots": object.__new__(NamedSnapshots),
    "file_urls": object.__new__(FileUrls),
    "audit": object.__new__(Audit),
    "logs": object.__new__(Logs),
}


class Inside:
    """Requests as machines make them."""

    def __init__(self, process: Process, node: Node) -> None:
        self.process = process
        sessions = Sessions()
        gateway = ModelGateway(ScriptedModel.from_file(None, VirtualClock()))
        services = Services(
            access=process.access,
            lifecycle=process.lifecycle,
            reach=process.reach,
            live=process.live,
            pool=process.pool,
            commands=process.commands,
            sessions=sessions,
            agents=Agents(sessions, lambda _: frozenset(), gateway_available=True),
            checkpoints=process.checkpoints,
            forks=process.forks,
            restores=process.restores,
            hibernation=process.hibernation,
            power=process.power,
            scaling=process.scaling,
            patches=process.patches,
            diffs=process.diffs,
            **_NOT_ASKED_FOR,
            secret_stores=process.secret_stores,
            sealings=process.sealings,
            egress=process.egress,
            templates=node.templates,
            gateway=gateway,
            clock=process.clock,
            presentation=Presentation("https://oc.example", "localhost", "eu-1", 0),
            durable=_only(SessionModels(MODELS_OF_NOBODY, MODELS_OF_NOBODY, gateway, MODELS_OF_NOBODY)),
        )
        self._app = create_metadata_app(services)

    async def request(self, method: str, path: str, address: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, client=(address, 40000))
        async with httpx.AsyncClient(transport=transport, base_url="http://169.254.169.254") as client:
            return await client.request(method, path, **options)

    async def get(self, path: str, live: LiveSandbox) -> httpx.Response:
        return await self.request("GET", path, live.machine.address)


@asynccontextmanager
async def inside(folder: Path) -> AsyncGenerator[Inside]:
    node = Node(folder)
    async with node.process() as process:
        yield Inside(process, node)


PATHS = ["/", "/v1/status", "/v1/limits", "/v1/metadata"]


async def test_a_machine_learns_about_itself(tmp_path: Path) -> None:
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        await asyncio.sleep(75)
        assert (await machines.get("/", live)).json() == {"endpoints": [*PATHS[1:], "/v1/scale"]}
        assert (await machines.get("/v1/status", live)).json() == {"sandboxId": live.id, "uptime": 75}
        assert (await machines.get("/v1/metadata", live)).json() == {"region": "eu-1", "template": "base"}
        limits = (await machines.get("/v1/limits", live)).json()
        assert {"cpuPercent", "memUsage", "memLimit", "pids", "netInput", "netOutput"} <= set(limits)
        assert limits["memLimit"] == 4096 << 20


async def test_each_machine_gets_its_own_answers(tmp_path: Path) -> None:
    async with inside(tmp_path) as machines:
        first, second = await machines.process.live_one(), await machines.process.live_one()
        for live in (first, second):
            assert (await machines.get("/v1/status", live)).json()["sandboxId"] == live.id


@pytest.mark.parametrize("path", [*PATHS, "/v1/scale", "/v1/model/anthropic/v1/messages", "/v1/nothing"])
async def test_a_stranger_learns_nothing(tmp_path: Path, path: str) -> None:
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        address = live.machine.address
        await machines.process.lifecycle.kill(ORG, live.id)
        for stranger in ("127.0.0.1", "192.0.2.1", address):
            for method in ("GET", "POST"):
                answer = await machines.request(method, path, stranger)
                assert answer.status_code in (404, 405)
                assert live.id not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/latest/meta-data/", 404),
        ("GET", "/computeMetadata/v1/", 404),
        ("POST", "/v1/status", 405),
        ("DELETE", "/v1/limits", 405),
        ("GET", "/v1/scale", 405),
        ("POST", "/v1/scale", 400),
    ],
)
async def test_what_it_does_not_offer_is_an_error_in_json(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    """It emulates no cloud provider."""
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        answer = await machines.request(method, path, live.machine.address)
        assert answer.status_code == status
        assert answer.json()["error"]


async def test_nothing_about_the_host_or_its_callers_is_told(tmp_path: Path) -> None:
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        texts = [(await machines.get(path, live)).text for path in PATHS]
        for hidden in ("oc.example", live.sandbox.org_id, str(live.machine.id)):
            assert not any(hidden in text for text in texts), hidden


async def test_a_model_answers_on_the_managed_way(tmp_path: Path) -> None:
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        answer = await machines.request(
            "POST",
            "/v1/model/anthropic/v1/messages",
            live.machine.address,
            headers={"x-api-key": "provided-by-the-node", "anthropic-version": "2023-06-01"},
            json={"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]},
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["type"] == "message"


async def test_a_machine_asks_for_another_size_by_the_rules_of_the_api(tmp_path: Path) -> None:
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        scaling = machines.process.scaling
        await scaling.set_autoscale(ORG, live.id, AutoscaleRequest(True, 1024, 8192))

        async def ask(body: object) -> tuple[int, Any]:
            answer = await machines.request("POST", "/v1/scale", live.machine.address, json=body)
            return answer.status_code, answer.json()

        both: dict[str, object] = {"memoryMB": 8192, "cpuPercent": 1}
        refused: list[object] = [{}, "4096", {"memoryMB": 2048}, {"memoryMB": "8192"}, both]
        for body in refused:
            assert (await ask(body))[0] == 400
        assert (await scaling.autoscale(ORG, live.id)).enabled
        assert await ask({"memoryMB": 8192}) == (200, {"ok": True, "memoryMB": 8192, "cpuPercent": 200})
        assert (await machines.get("/v1/limits", live)).json()["memLimit"] == 8192 << 20
        assert not (await scaling.autoscale(ORG, live.id)).enabled
        assert await ask({"cpuPercent": 100}) == (200, {"ok": True, "memoryMB": 1024, "cpuPercent": 100})
        with machines.process.transitions.exclusive(live.id, "something", closes=True):
            assert (await ask({"memoryMB": 8192}))[0] == 503
        await scaling.set_lock(ORG, live.id, locked=True)
        status, body = await ask({"memoryMB": 8192})
        assert (status, body["code"]) == (403, "scaling_locked")


async def test_a_long_request_from_inside_is_not_read_to_its_end(tmp_path: Path) -> None:
    async with inside(tmp_path) as machines:
        live = await machines.process.live_one()
        answer = await machines.request("POST", "/v1/scale", live.machine.address, content=b" " * 5000)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
