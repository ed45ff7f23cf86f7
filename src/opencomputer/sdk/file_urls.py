"""URLs with which anybody may use one file of a sandbox for a while, without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import Call

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink


class FileUrls:
    """The part of a `Sandbox` that is about signed URLs."""

    _link: SandboxLink

    async def download_url(self, path: str, *, expires_in: int = 3600) -> str:
        """A URL that gives the file as it is when it is fetched, to whoever has the URL.

        It lives for `expires_in` seconds, a day at most, and not longer than the sandbox. It wakes the
        sandbox when it is used, and takes `Range` requests.
        """
        return await self._signed("download-url", path, expires_in)

    async def upload_url(self, path: str, *, expires_in: int = 3600) -> str:
        """A URL to which whoever has it may PUT the file's new content; otherwise as `download_url`."""
        return await self._signed("upload-url", path, expires_in)

    async def revoke_file_urls(self) -> None:
        """End all URLs that have been made for this sandbox's files."""
        await self._link.plane.send(Call("POST", self._link.path("files", "revoke-urls"), repeatable=True))

    async def _signed(self, operation: str, path: str, expires_in: int) -> str:
        body = {"path": path, "expiresIn": expires_in}
        call = Call("POST", self._link.path("files", operation), repeatable=True, json=body)
        return answers.required_text(answers.json_object(await self._link.plane.json(call)), "url")
