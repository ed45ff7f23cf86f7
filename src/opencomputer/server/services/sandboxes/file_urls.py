"""Signed URLs of files: whoever has one may use that file without a key, for a while."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.errors import Forbidden, Gone, InvalidInput, NotFound
from opencomputer.server.domain.file_urls import FileOperation, FilePermit, check_path, life
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.wire.ids import OrgId, SandboxId

# Longer ones are no times: nothing that was signed here has so many.
_MOST_DIGITS = 20
_NOT_VALID = "this URL is not valid: it was changed, revoked, or made for something else"


@dataclass(frozen=True)
class SignedPermit:
    """What goes into a URL: the permit, its signature, and when it ends."""

    permit: FilePermit
    signature: str
    expires_at: datetime


class FileUrls:
    """Signs permits and checks them. Neither counts as use of the sandbox."""

    def __init__(self, sandboxes: SandboxStore, clock: Clock, secret: bytes) -> None:
        self._sandboxes = sandboxes
        self._clock = clock
        self._secret = secret

    async def sign(
        self,
        org_id: OrgId,
        sandbox_id: SandboxId,
        operation: FileOperation,
        path: str,
        seconds: int | None,
    ) -> SignedPermit:
        """A permit that lives for so many seconds, within bounds. Raises InvalidInput, NotFound, Gone."""
        check_path(path)
        sandbox = await self._own(org_id, sandbox_id)
        expires_at = (self._clock.now() + life(seconds)).replace(microsecond=0)
        expires = str(int(expires_at.timestamp()))
        permit = FilePermit(sandbox_id, sandbox.file_url_epoch, operation, path, expires)
        return SignedPermit(permit, permit.signature(self._secret), expires_at)

    async def revoke(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        """No URL that has been signed for this sandbox is valid any more. Raises NotFound, Gone."""
        await self._own(org_id, sandbox_id)
        await self._sandboxes.update(sandbox_id, {"file_url_epoch": secrets.token_hex(8)})

    async def redeem(
        self, sandbox_id: SandboxId, operation: FileOperation, path: str, expires: str, signature: str
    ) -> OrgId:
        """The organisation whose sandbox the holder of this URL may use for that. Wakes nothing.

        Raises InvalidInput where something is missing or no number; Forbidden where the URL has expired, and
        then where its signature is wrong, whatever the reason: it does not tell which sandboxes there are.
        """
        if not signature:
            raise InvalidInput("signature is required", field="signature")
        check_path(path)
        self._check_time(expires)
        sandbox = await self._sandboxes.find(sandbox_id)
        epoch = None if sandbox is None else sandbox.file_url_epoch
        permit = FilePermit(sandbox_id, epoch, operation, path, expires)
        if not permit.is_signed(signature, self._secret) or sandbox is None:
            raise Forbidden(_NOT_VALID)
        return sandbox.org_id

    def _check_time(self, expires: str) -> None:
        digits = expires.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()):
            raise InvalidInput("expires is required: a number of Unix seconds", field="expires")
        if len(digits) > _MOST_DIGITS:
            raise Forbidden(_NOT_VALID)
        if int(expires) <= self._clock.now().timestamp():
            raise Forbidden("this URL has expired")

    async def _own(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox:
        sandbox = await self._sandboxes.get(org_id, sandbox_id)
        if sandbox is None or not sandbox.visible:
            raise NotFound("there is no such sandbox")
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        return sandbox
