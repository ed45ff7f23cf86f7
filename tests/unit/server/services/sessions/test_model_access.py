"""Which key a machine's question to a model is sent on with, and which machines get none."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.contracts.models import ModelRequest, ModelResponse
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.session import MANAGED, Completion, Session, YieldReason
from opencomputer.server.services.sandboxes.gateway import ModelCall, ModelGateway
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sessions.boxes_sandboxes import Role
from opencomputer.server.services.sessions.model_access import SessionModels
from opencomputer.wire.ids import OrgId
from tests.support.sessions import AT, admitted, begun
from tests.unit.server.services.harness import ORG
from tests.unit.server.services.sessions.boxes_world import World, world

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def boxed(tmp_path: Path, anyio_backend: object) -> AsyncGenerator[World]:
    async with world(tmp_path) as made:
        yield made


class Keys:
    """Implements ModelKeys."""

    def __init__(self, **keys: str) -> None:
        self.keys = keys

    async def key(self, org_id: OrgId, credential: str) -> str | None:
        return self.keys.get(credential)


class Recorder:
    """Implements ModelProvider and KeyedModels."""

    name = "recording"
    providers = frozenset({"anthropic", "openai"})
    available = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def answer(self, *about: Any) -> Any:
        return self._answer(*about)

    @asynccontextmanager
    async def _answer(self, *about: Any) -> AsyncGenerator[ModelResponse]:
        provider, request, key = about if len(about) == 3 else ("managed", about[0], "operator's")
        assert isinstance(request, ModelRequest)
        self.asked.append((provider, key, dict(request.headers)))
        yield ModelResponse(200, (), _nothing())

    async def close(self) -> None:
        return


async def _nothing() -> AsyncIterator[bytes]:
    for piece in ():
        yield piece


class Scene:
    def __init__(self, boxed: World, **keys: str) -> None:
        self.boxed = boxed
        self.keys = Keys(**keys)
        self.recorder: Any = Recorder()
        gateway = ModelGateway(self.recorder)
        self.models = SessionModels(boxed.tables.sessions, self.keys, gateway, self.recorder)

    async def live(self, session: Session, role: Role = Role.BRAIN) -> LiveSandbox:
        live = await self.boxed.sandboxes.running(session, role)
        assert live is not None
        return live

    async def ask(self, live: LiveSandbox, provider: str = "anthropic") -> tuple[int, Any]:
        headers = [("x-api-key", "placeholder"), ("authorization", "Bearer x"), ("accept", "a/b")]
        call = ModelCall("POST", "/v1/messages", "", headers, _nothing())
        async with self.models.answer(live, provider, call) as answer:
            body = b"".join([chunk async for chunk in answer.chunks])
            return answer.status, json.loads(body) if body else None


async def running(boxed: World, **agent: Any) -> Session:
    session = await admitted(boxed.tables, ORG, **agent)
    await boxed.brain(session)
    await begun(boxed.tables, session)
    return session


async def test_a_brain_uses_its_sessions_key_as_it_is_at_this_moment(boxed: World) -> None:
    scene = Scene(boxed, cred_1="sk-old")
    live = await scene.live(await running(boxed, credential="cred_1"))
    await scene.ask(live)
    scene.keys.keys["cred_1"] = "sk-new"
    await scene.ask(live)
    assert scene.recorder.asked == [
        ("anthropic", "sk-old", {"accept": "a/b"}),
        ("anthropic", "sk-new", {"accept": "a/b"}),
    ]


async def test_a_managed_session_uses_the_operators_provider(boxed: World) -> None:
    scene = Scene(boxed)
    live = await scene.live(await running(boxed, credential=MANAGED, model="openai/gpt-5-codex"))
    assert (await scene.ask(live, "openai"))[0] == 200
    assert [asked[0] for asked in scene.recorder.asked] == ["managed"]


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_deleted_key_is_said_in_the_providers_words(boxed: World, provider: str) -> None:
    scene = Scene(boxed)
    live = await scene.live(await running(boxed, credential="cred_1", model=f"{provider}/m"))
    status, body = await scene.ask(live, provider)
    assert status == 401
    assert body["error"]["message"].startswith("credential_missing: ")
    assert scene.recorder.asked == []


async def test_a_brain_gets_no_other_providers_models(boxed: World) -> None:
    scene = Scene(boxed, cred_1="sk")
    live = await scene.live(await running(boxed, credential="cred_1"))
    assert (await scene.ask(live, "openai"))[0] == 403
    with pytest.raises(NotFound):
        await scene.ask(live, "elsewhere")


async def test_only_a_session_that_runs_may_ask(boxed: World) -> None:
    scene = Scene(boxed, cred_1="sk")
    session = await admitted(boxed.tables, ORG, credential="cred_1")
    await boxed.brain(session)
    live = await scene.live(session)
    assert (await scene.ask(live))[0] == 403
    claim = await boxed.tables.turns.claim(session.id, "worker", AT, AT + timedelta(seconds=30))
    assert claim is not None
    await boxed.tables.turns.begin(claim, AT, AT + timedelta(minutes=30))
    assert (await scene.ask(live))[0] == 200
    await boxed.tables.turns.complete(claim, Completion(YieldReason.COMPLETED, AT))
    assert (await scene.ask(live))[0] == 403


async def test_who_only_says_to_be_a_brain_has_what_every_sandbox_has(boxed: World) -> None:
    scene = Scene(boxed, cred_1="sk")
    session = await running(boxed, credential="cred_1")
    forged = await boxed.process.create(metadata={"oc.session": session.id, "oc.role": "brain"})
    live = boxed.process.live.get(ORG, forged.id)
    assert live is not None
    await scene.ask(live)
    elsewhere = LiveSandbox(
        replace((await scene.live(session)).sandbox, org_id=OrgId("org-2")), live.machine, live.activity
    )
    await scene.ask(elsewhere)
    await boxed.boxes.hands(session)
    await scene.ask(await scene.live(session, Role.HANDS))
    assert [asked[1] for asked in scene.recorder.asked] == ["operator's"] * 3
    with pytest.raises(NotFound):
        await scene.ask(live, "openai")
