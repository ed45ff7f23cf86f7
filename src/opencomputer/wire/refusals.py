"""What a request that is refused, or fails, is answered with."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Refusal(BaseModel):
    """Of `/api`. Some codes have details of their own beside these."""

    model_config = ConfigDict(extra="allow")

    error: str = Field(description="what is wrong, for people")
    code: str = Field(description="the stable word for it, for programs")
    field: str = Field(default="", description="what part of the request it is about")
    retryable: bool = Field(default=False, description="the same request may succeed a moment later")


class RefusedSessionRequest(BaseModel):
    """What is inside the `error` of a refusal of `/v3`."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="the same as `code`")
    code: str = Field(description="the stable word for it, for programs")
    message: str = Field(description="what is wrong, for people")
    param: str = Field(default="", description="what part of the request it is about")
    request_id: str = Field(description="also in the header `X-Request-Id`, and in the server's log")
    retryable: bool = Field(default=False, description="the same request may succeed a moment later")


class SessionRefusal(BaseModel):
    """Of `/v3`."""

    error: RefusedSessionRequest
