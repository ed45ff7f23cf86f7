"""What `…/rewind` and `…/fork` refuse; what they do is shown where there are boxes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.v3.answers import error_of
from tests.support.node import Api

pytestmark = pytest.mark.anyio

MISSING = "/v3/sessions/ses_000000000000000000000000"


@pytest.mark.parametrize("verb", ["rewind", "fork"])
async def test_a_session_that_is_not_there_cannot_go_back(api: Api, verb: str) -> None:
    error_of(await api.client.post(f"{MISSING}/{verb}", json={"turn": "trn_1"}), 404, "not_found")


BODIES: list[tuple[str, Any]] = [
    ("rewind", {}),
    ("rewind", {"turn": None}),
    ("rewind", {"turn": 1}),
    ("rewind", {"turn": ""}),
    ("fork", {"turn": 1}),
    ("fork", {"turn": ["trn_1"]}),
]


@pytest.mark.parametrize(("verb", "body"), BODIES)
async def test_what_is_no_turn_is_refused_by_name(api: Api, verb: str, body: Any) -> None:
    error_of(await api.client.post(f"{MISSING}/{verb}", json=body), 400, "invalid", "turn")


@pytest.mark.parametrize("verb", ["rewind", "fork"])
async def test_nobody_without_a_key_goes_back(api: Api, verb: str) -> None:
    headers = {"X-API-Key": "osb_0"}
    answer = await api.client.post(f"{MISSING}/{verb}", json={"turn": "trn_1"}, headers=headers)
    error_of(answer, 401, "unauthorized")
