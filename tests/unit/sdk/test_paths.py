"""Ids that people give lead to what they name, and nowhere else."""

from __future__ import annotations

import httpx
import pytest

from opencomputer.sdk.control_plane import ControlPlane
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.hosted.connection import agent_path
from opencomputer.sdk.paths import NamelessError, path_of
from opencomputer.sdk.sandbox_link import SandboxLink


def test_ids_cannot_lead_elsewhere() -> None:
    assert path_of("sessions", "../agents?x", 3) == "/sessions/..%2Fagents%3Fx/3"


@pytest.mark.parametrize("given", ["", ".", ".."])
def test_what_names_nothing_is_refused_before_anything_is_sent(given: str) -> None:
    """`DELETE /sandboxes/..` would be about something else."""

    def nobody(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"sent {request.url}")

    plane = ControlPlane(Endpoint("http://node.test/api", "osb_key"), transport=httpx.MockTransport(nobody))
    with pytest.raises(NamelessError, match="no id"):
        SandboxLink(plane, given).path("exec")
    with pytest.raises(NamelessError):
        agent_path(given)


def test_none_is_no_id() -> None:
    """A variable that is not set would be the id "None"."""
    with pytest.raises(NamelessError, match="None is no id"):
        path_of("sandboxes", None)  # pyright: ignore[reportArgumentType] - what an untyped caller does
