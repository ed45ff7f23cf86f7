# Generated from src/opencomputer/sdk/browser_profile.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.browser_profile`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.auth_check import AuthCheck
from opencomputer.blocking.support.loop import run
from opencomputer.blocking.support.twin import Twin, view, views
from opencomputer.sdk import browser_profile as sdk

if TYPE_CHECKING:
    import builtins


class BrowserProfile(Twin):
    """A profile that browsers can start with. Made by `create`, `connect` or `list`.

    Where it is, and what a server without browsers answers, is as for `Browser`.
    """

    @property
    def id(self) -> str:
        return self._original.id

    @property
    def provider(self) -> str:
        return self._original.provider

    @property
    def provider_profile_id(self) -> str:
        return self._original.provider_profile_id

    @property
    def name(self) -> str | None:
        return self._original.name

    @property
    def created_at(self) -> str | None:
        return self._original.created_at

    @property
    def updated_at(self) -> str | None:
        return self._original.updated_at

    @property
    def deleted_at(self) -> str | None:
        return self._original.deleted_at

    @property
    def provider_created_at(self) -> str | None:
        return self._original.provider_created_at

    @property
    def provider_updated_at(self) -> str | None:
        return self._original.provider_updated_at

    @property
    def provider_last_used_at(self) -> str | None:
        return self._original.provider_last_used_at

    @classmethod
    def create(
        cls, *, api_key: str | None = None, api_url: str | None = None, name: str | None = None
    ) -> BrowserProfile:
        """Make an empty one."""
        return view(cls, run(sdk.BrowserProfile.create(api_key=api_key, api_url=api_url, name=name)))

    @classmethod
    def list(cls, *, api_key: str | None = None, api_url: str | None = None) -> builtins.list[BrowserProfile]:
        """All of them. They share a connection: closing one closes that of all."""
        return views(BrowserProfile, run(sdk.BrowserProfile.list(api_key=api_key, api_url=api_url)))

    @classmethod
    def connect(
        cls, id_or_name: str, *, api_key: str | None = None, api_url: str | None = None
    ) -> BrowserProfile:
        """Find one. Raises `NotFoundError`."""
        return view(cls, run(sdk.BrowserProfile.connect(id_or_name, api_key=api_key, api_url=api_url)))

    def check_auth(
        self,
        homepage: str,
        user: str | None = None,
        mode: str | None = None,
        compare_fresh: bool | None = None,
    ) -> AuthCheck:
        """Begin to find out whether this profile is logged in at a site; `wait` for the result.

        `user` is who should be logged in there. With `compare_fresh` the site is also seen with an empty
        profile.
        """
        return view(AuthCheck, self._run(self._original.check_auth(homepage, user, mode, compare_fresh)))

    def delete(self) -> None:
        """Delete the profile and what it keeps. Raises `NotFoundError` when it is gone already."""
        self._run(self._original.delete())

    def close(self) -> None:
        """Close the connection to the server; may be called again."""
        self._run(self._original.close())

    @property
    def _original(self) -> sdk.BrowserProfile:
        return cast("sdk.BrowserProfile", self._wrapped)
