"""The base of all JSON shapes: attributes in Python's words, keys in the contract's."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """Unknown fields are ignored, as the contract demands; names on the wire come from aliases."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore", serialize_by_alias=True)
