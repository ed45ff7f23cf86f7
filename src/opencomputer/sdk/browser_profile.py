"""What browsers keep from one session to the next, such as logins: `BrowserProfile`."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.auth_check import AuthCheck
from opencomputer.sdk.browser import connection_of
from opencomputer.sdk.control_plane import Call, ControlPlane, get
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.opening import made, opened
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject


@dataclass
class BrowserProfile:
    """A profile that browsers can start with. Made by `create`, `connect` or `list`.

    Where it is, and what a server without browsers answers, is as for `Browser`.
    """

    id: str
    provider: str
    provider_profile_id: str
    name: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    deleted_at: str | None = None
    provider_created_at: str | None = None
    provider_updated_at: str | None = None
    provider_last_used_at: str | None = None
    _plane: ControlPlane | None = field(default=None, repr=False, compare=False)

    @classmethod
    async def create(
        cls, *, api_key: str | None = None, api_url: str | None = None, name: str | None = None
    ) -> BrowserProfile:
        """Make an empty one."""
        endpoint = Endpoint.of_browsers(api_key, api_url)
        return await made(_profile, endpoint, Call("POST", "/v1/profiles", json=set_members(name=name)))

    @classmethod
    async def list(
        cls, *, api_key: str | None = None, api_url: str | None = None
    ) -> builtins.list[BrowserProfile]:
        """All of them. They share a connection: closing one closes that of all."""
        plane = ControlPlane(Endpoint.of_browsers(api_key, api_url))
        try:
            answer = answers.json_object(await plane.json(get("/v1/profiles")))
            return [_profile(plane, each) for each in answers.json_objects(answer.get("profiles"))]
        except BaseException:
            await plane.aclose()
            raise

    @classmethod
    async def connect(
        cls, id_or_name: str, *, api_key: str | None = None, api_url: str | None = None
    ) -> BrowserProfile:
        """Find one. Raises `NotFoundError`."""
        plane = ControlPlane(Endpoint.of_browsers(api_key, api_url))
        return await opened(_profile, plane, get(_path(id_or_name)))

    async def check_auth(
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
        plane = connection_of(self._plane)
        body = set_members(homepage=homepage, user=user, mode=mode, compare_fresh=compare_fresh)
        path = f"{_path(self.id)}/auth-checks"
        return AuthCheck(plane, path, answers.json_object(await plane.json(Call("POST", path, json=body))))

    async def delete(self) -> None:
        """Delete the profile and what it keeps. Raises `NotFoundError` when it is gone already."""
        await connection_of(self._plane).send(Call("DELETE", _path(self.id)))

    async def close(self) -> None:
        """Close the connection to the server; may be called again."""
        if self._plane is not None:
            await self._plane.aclose()


def _path(id_or_name: str) -> str:
    return path_of("v1", "profiles", id_or_name)


def _profile(plane: ControlPlane, answer: JsonObject) -> BrowserProfile:
    return BrowserProfile(
        id=answers.required_text(answer, "id"),
        provider=answers.text(answer, "provider", "kernel"),
        provider_profile_id=answers.text(answer, "provider_profile_id"),
        name=answers.text(answer, "name") or None,
        created_at=answers.text(answer, "created_at") or None,
        updated_at=answers.text(answer, "updated_at") or None,
        deleted_at=answers.text(answer, "deleted_at") or None,
        provider_created_at=answers.text(answer, "provider_created_at") or None,
        provider_updated_at=answers.text(answer, "provider_updated_at") or None,
        provider_last_used_at=answers.text(answer, "provider_last_used_at") or None,
        _plane=plane,
    )
