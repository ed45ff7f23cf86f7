"""Makes sandboxes for sessions, finds them again, and removes them."""

from __future__ import annotations

import uuid
from contextlib import suppress

from agents.sandbox import Manifest
from agents.sandbox.session import (
    BaseSandboxClient,
    Dependencies,
    Instrumentation,
    SandboxSession,
    SandboxSessionState,
)
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from typing_extensions import override

from opencomputer.integrations.openai_agents.records import (
    BACKEND,
    OpenComputerSandboxClientOptions,
    OpenComputerSandboxSessionState,
)
from opencomputer.integrations.openai_agents.session import OpenComputerSandboxSession
from opencomputer.sdk.errors import NotFoundError, SandboxStoppedError
from opencomputer.sdk.sandbox import Sandbox

_ENDED = frozenset({"stopped", "error"})


class OpenComputerSandboxClient(BaseSandboxClient[OpenComputerSandboxClientOptions | None]):
    """Sandboxes of one server: by default that of `OPENCOMPUTER_API_URL`, with `OPENCOMPUTER_API_KEY`."""

    backend_id = BACKEND
    supports_default_options = True

    def __init__(
        self,
        *,
        api_key: str | None = None,
        api_url: str | None = None,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._api_key = api_key
        self._api_url = api_url
        self._instrumentation = instrumentation or Instrumentation()
        self._dependencies = dependencies

    @override
    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: OpenComputerSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Create a sandbox, with the defaults where no options are given."""
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        options = options or OpenComputerSandboxClientOptions()
        session_id = uuid.uuid4()
        resolved = resolve_snapshot(snapshot, str(session_id))
        sandbox = await self._sandbox(options)
        state = OpenComputerSandboxSessionState(
            session_id=session_id,
            manifest=manifest,
            snapshot=resolved,
            exposed_ports=options.exposed_ports,
            sandbox_id=sandbox.sandbox_id,
            options=options,
        )
        return self._session(OpenComputerSandboxSession(state, sandbox))

    @override
    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Take up the session's sandbox, waking it if it sleeps.

        Where it is gone there is a new one, with the files of the session's snapshot.
        """
        if not isinstance(state, OpenComputerSandboxSessionState):
            raise TypeError("the state is that of a session of another kind of sandbox")
        state.assert_path_grants_rebound()
        sandbox = await self._found(state.sandbox_id)
        found = sandbox is not None
        if sandbox is None:
            sandbox = await self._sandbox(state.options)
            state.sandbox_id = sandbox.sandbox_id
            state.workspace_root_ready = False
        return self._session(OpenComputerSandboxSession(state, sandbox, found=found))

    @override
    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End the session's sandbox for good, sleeping ones too."""
        inner = session._inner  # pyright: ignore[reportPrivateUsage] - as all clients must
        if not isinstance(inner, OpenComputerSandboxSession):
            raise TypeError("the session is one of another kind of sandbox")
        if inner.ended and inner.state.options.hibernate_on_exit:
            await self._remove(inner.state.sandbox_id)
        else:
            await inner.remove()
        return session

    @override
    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, OpenComputerSandboxSessionState)

    def _session(self, inner: OpenComputerSandboxSession) -> SandboxSession:
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def _sandbox(self, options: OpenComputerSandboxClientOptions) -> Sandbox:
        return await Sandbox.create(api_key=self._api_key, api_url=self._api_url, **options.arguments())

    async def _remove(self, sandbox_id: str) -> None:
        with suppress(NotFoundError):
            async with await Sandbox.connect(sandbox_id, self._api_key, self._api_url):
                pass

    async def _found(self, sandbox_id: str) -> Sandbox | None:
        try:
            sandbox = await Sandbox.connect(sandbox_id, self._api_key, self._api_url)
        except NotFoundError:
            return None
        with suppress(SandboxStoppedError):
            if sandbox.status == "hibernated":
                await sandbox.wake()
        if sandbox.status in _ENDED or not await sandbox.is_running():
            await sandbox.close()
            return None
        return sandbox
