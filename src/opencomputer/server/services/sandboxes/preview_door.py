"""The way of a visitor to a port of a sandbox: looked at first, and only then is anything woken."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Connection
from opencomputer.server.contracts.previews import PreviewStores
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    Gone,
    GrantInvalid,
    NotFound,
    NothingListens,
    NotReady,
    PreviewLocked,
)
from opencomputer.server.domain.previews import Grant, Presented, PreviewAddress, PreviewDomains
from opencomputer.server.domain.sandbox import TERMINAL, Sandbox
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.preview_visits import Visit, Visits
from opencomputer.server.services.sandboxes.reach import Reach

WAKE_SECONDS = 90.0
DIAL_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.5)
"""Between the attempts to connect to a program that does not listen yet."""
_MOST_COOKIES = 8


@dataclass(frozen=True)
class Admission:
    """`bearer_was_token`: the Authorization header was for us, and not for the program.

    `grant` is the one whose link was followed, which may be remembered in a cookie."""

    sandbox: Sandbox
    bearer_was_token: bool = False
    grant: Grant | None = None


class PreviewDoor:
    def __init__(
        self, stores: PreviewStores, domains: PreviewDomains, reach: Reach, visits: Visits, clock: Clock
    ) -> None:
        self._stores = stores
        self._domains = domains
        self._reach = reach
        self._visits = visits
        self._clock = clock

    def visit(self, address: PreviewAddress) -> AbstractContextManager[Visit]:
        """Whatever is done for one request is done inside of this."""
        return self._visits.visit(address.sandbox_id)

    async def admit(self, visit: Visit, address: PreviewAddress, shown: Presented) -> Admission:
        """Decide whether a visitor may pass. Wakes nothing, and is no use of the sandbox.

        Raises NotFound, Gone, PreviewLocked, GrantInvalid."""
        while True:
            visit.doubtful = False
            sandbox = await self._sandbox(address)
            admission, grant = await self._decide(sandbox, address, shown)
            if not visit.doubtful:
                break
        visit.decided = True
        if grant is not None:
            visit.grant, visit.expires_at = grant.id, grant.expires_at
        return admission

    async def _sandbox(self, address: PreviewAddress) -> Sandbox:
        sandbox = await self._stores.sandboxes.find(address.sandbox_id)
        if sandbox is None or not sandbox.visible or not 1 <= address.port <= 65535:
            raise NotFound("there is no such preview")
        if not await self._is_named(sandbox, address):
            raise NotFound("there is no such preview")
        if sandbox.state in TERMINAL:
            raise Gone
        return sandbox

    async def _is_named(self, sandbox: Sandbox, address: PreviewAddress) -> bool:
        if address.domain == self._domains.server:
            return True
        if not self._domains.permits(address.domain, sandbox.org_id):
            return False
        record = await self._stores.records.get(sandbox.id, address.port)
        return record is not None and record.domain == address.domain

    async def _decide(
        self, sandbox: Sandbox, address: PreviewAddress, shown: Presented
    ) -> tuple[Admission, Grant | None]:
        """What is passed on, and by which grant the visitor came, if by one."""
        token_hash = sandbox.preview_token_hash
        bearer_fits = _fits(shown.bearer, token_hash)
        if shown.link is not None:
            grant = await self._grant(address, shown.link)
            if grant is None:
                raise GrantInvalid
            return Admission(sandbox, bearer_fits, grant), grant
        if token_hash is None:
            return Admission(sandbox), None
        if shown.header is not None:
            if not _fits(shown.header, token_hash):
                raise PreviewLocked("this preview token is not valid")
            return Admission(sandbox, bearer_fits), None
        for cookie in shown.cookies[:_MOST_COOKIES]:
            grant = await self._grant(address, cookie)
            if grant is not None:
                return Admission(sandbox, bearer_fits), grant
        if bearer_fits:
            return Admission(sandbox, bearer_was_token=True), None
        if shown.bearer is not None:
            raise PreviewLocked("this preview token is not valid")
        raise GrantInvalid if shown.cookies else PreviewLocked

    async def _grant(self, address: PreviewAddress, token: str) -> Grant | None:
        token_hash = naming.secret_hash(token)
        grant = await self._stores.grants.by_hash(token_hash)
        if grant is None or not hmac.compare_digest(grant.token_hash, token_hash):
            return None
        return grant if grant.opens(address, self._clock.now()) else None

    async def reach(self, sandbox: Sandbox) -> LiveSandbox:
        """The machine of a sandbox whose visitor was let in, woken if it sleeps. Raises as `Reach.live`."""
        try:
            async with asyncio.timeout(WAKE_SECONDS):
                return await self._reach.live(sandbox.org_id, sandbox.id)
        except TimeoutError as error:
            raise NotReady("the sandbox takes long to wake; try again shortly", waking=True) from error

    async def settled(self, live: LiveSandbox) -> None:
        """As `Reach.settled`: for who has lost a connection to the machine."""
        await self._reach.settled(live)

    @asynccontextmanager
    async def dial(self, live: LiveSandbox, port: int) -> AsyncGenerator[Connection]:
        """A connection to the program at a port, which may be just about to listen. Raises NothingListens."""
        async with AsyncExitStack() as stack:
            yield await self._dial(stack, live, port)

    async def _dial(self, stack: AsyncExitStack, live: LiveSandbox, port: int) -> Connection:
        for pause in DIAL_PAUSES:
            try:
                return await stack.enter_async_context(live.machine.dial(port))
            except NothingListens:
                await self._clock.sleep(pause)
        return await stack.enter_async_context(live.machine.dial(port))

    def check(self, visit: Visit) -> None:
        """Raises PreviewLocked when a visit has to end, as it may while the sandbox wakes."""
        expired = visit.expires_at is not None and visit.expires_at <= self._clock.now()
        if visit.over.is_set() or expired:
            raise PreviewLocked("what let you in has expired, or was taken back")

    async def until_over(self, visit: Visit) -> None:
        """Return when a visit has to end: what let it in has expired, or was taken back."""
        over = asyncio.ensure_future(visit.over.wait())
        left = None if visit.expires_at is None else (visit.expires_at - self._clock.now()).total_seconds()
        expiry = None if left is None else asyncio.ensure_future(self._clock.sleep(max(0.0, left)))
        waits = [over] if expiry is None else [over, expiry]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def _fits(shown: str | None, token_hash: str | None) -> bool:
    """Compared as hashes and in constant time, so that neither tells how much of a token is right."""
    if shown is None or token_hash is None:
        return False
    return hmac.compare_digest(naming.secret_hash(shown), token_hash)
