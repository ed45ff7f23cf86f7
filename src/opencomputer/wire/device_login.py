"""`/auth/cli/…`: how `oc login` gets a key. Names in snake case here, as the contract has them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictStr

from opencomputer.wire.model import PlainModel


class StartedLoginView(PlainModel):
    """`device_code` is the client's own secret; `user_code` is what a person enters on the page."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class ExchangeDeviceCode(PlainModel):
    device_code: Annotated[StrictStr, Field(min_length=1, max_length=256)]
    credential_name: Annotated[StrictStr, Field(min_length=1, max_length=128)] = "oc CLI"


class DecideLogin(PlainModel):
    user_code: Annotated[StrictStr, Field(min_length=1, max_length=64)]
    approve: StrictBool = True


class PendingLoginView(PlainModel):
    status: Literal["authorization_pending"] = "authorization_pending"
    retry_after: int


class CredentialView(PlainModel):
    """The only answer that ever carries the key."""

    id: str
    key: str
    key_prefix: str
    name: str


class AuthorizedLoginView(PlainModel):
    status: Literal["authorized"] = "authorized"
    credential: CredentialView


class DecidedLoginView(PlainModel):
    status: Literal["approved", "denied"]
    requested_from: str
