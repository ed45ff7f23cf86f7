# Generated from src/opencomputer/sdk/file_urls.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.file_urls`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk import file_urls as sdk


class FileUrls(Twin):
    """The part of a `Sandbox` that is about signed URLs."""

    def download_url(self, path: str, *, expires_in: int = 3600) -> str:
        """A URL that gives the file as it is when it is fetched, to whoever has the URL.

        It lives for `expires_in` seconds, a day at most, and not longer than the sandbox. It wakes the
        sandbox when it is used, and takes `Range` requests.
        """
        return self._run(self._original.download_url(path, expires_in=expires_in))

    def upload_url(self, path: str, *, expires_in: int = 3600) -> str:
        """A URL to which whoever has it may PUT the file's new content; otherwise as `download_url`."""
        return self._run(self._original.upload_url(path, expires_in=expires_in))

    def revoke_file_urls(self) -> None:
        """End all URLs that have been made for this sandbox's files."""
        self._run(self._original.revoke_file_urls())

    @property
    def _original(self) -> sdk.FileUrls:
        return cast("sdk.FileUrls", self._wrapped)
