"""The way of a session's brain to its model: the gateway knows it by its machine, and adds the key.

So no key ever enters a machine, and one that is changed or deleted counts from the next request on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from opencomputer.server.contracts.agents import ModelKeys
from opencomputer.server.contracts.models import KeyedModels, ModelResponse
from opencomputer.server.contracts.sessions import SessionStore
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.model_apis import ANTHROPIC, CREDENTIAL_MISSING, MODEL_APIS
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.sessions.session import MANAGED, Session, SessionStatus
from opencomputer.server.services.sandboxes.gateway import ModelCall, ModelGateway, forwarded
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sessions.boxes_sandboxes import ROLE, SESSION, Role
from opencomputer.wire.ids import SessionId


class SessionModels:
    """Answers machines that ask for a model, each by what it is."""

    def __init__(
        self, store: SessionStore, keys: ModelKeys, managed: ModelGateway, upstream: KeyedModels
    ) -> None:
        self._store = store
        self._keys = keys
        self._managed = managed
        self._upstream = upstream

    @asynccontextmanager
    async def answer(
        self, live: LiveSandbox, provider: str, call: ModelCall
    ) -> AsyncGenerator[ModelResponse]:
        """Answer one request. A machine that is no brain has the operator's provider, where there is one.

        Refusals are in the provider's own shape. Raises NotFound for a provider that is not known here.
        """
        if provider not in MODEL_APIS:
            raise NotFound("there is no such model provider")
        session = await self._session_of(live.sandbox)
        if session is None and provider != ANTHROPIC:
            raise NotFound("there is no such model provider")
        with live.activity.request():
            async with self._answer(session, provider, call) as answer:
                yield answer

    @asynccontextmanager
    async def _answer(
        self, session: Session | None, provider: str, call: ModelCall
    ) -> AsyncGenerator[ModelResponse]:
        if session is not None and (refused := _refusal(session, provider)):
            yield _error(provider, 403, refused)
        elif session is None or session.agent.credential == MANAGED:
            async with self._managed.answer(call) as answer:
                yield answer
        elif (key := await self._keys.key(session.org_id, session.agent.credential)) is None:
            yield _error(provider, 401, f"{CREDENTIAL_MISSING}: the session's credential was deleted")
        else:
            async with self._upstream.answer(provider, forwarded(call), key) as answer:
                yield answer

    async def _session_of(self, sandbox: Sandbox) -> Session | None:
        """The session whose brain this is. What metadata says is only a hint: anybody can write it."""
        if sandbox.metadata.get(ROLE) != Role.BRAIN or SESSION not in sandbox.metadata:
            return None
        session = await self._store.find(SessionId(sandbox.metadata[SESSION]))
        if session is None or session.org_id != sandbox.org_id or session.boxes.brain != sandbox.id:
            return None
        return session


def _refusal(session: Session, provider: str) -> str | None:
    """Why a session's brain gets no answer right now."""
    if session.status is not SessionStatus.RUNNING:
        return "the session is not running"
    if session.agent.provider != provider:
        return f"the session's model is not one of {provider}"
    return None


def _error(provider: str, status: int, message: str) -> ModelResponse:
    body = MODEL_APIS[provider].error(status, message)
    headers = (("content-type", "application/json"), ("content-length", str(len(body))))
    return ModelResponse(status, headers, _once(body))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
