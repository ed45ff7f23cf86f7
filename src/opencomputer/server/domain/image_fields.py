"""Reading the fields of a manifest, each fault named by the field's place."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard, cast

from opencomputer.server.domain.errors import InvalidInput

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODE = re.compile(r"0?[0-7]{3}")
_MAX_PATH = 4096
_MAX_PART = 255


class Fields:
    """A JSON object of which not even that is sure. `field` is its place, for messages."""

    def __init__(self, value: object, field: str) -> None:
        self.field = field
        if not _is_object(value):
            raise InvalidInput(f"{field}: must be an object", field=field)
        self._value = value

    def get(self, name: str) -> object:
        return self._value.get(name)

    def object(self, name: str) -> Fields:
        return Fields(self.get(name), f"{self.field}.{name}")

    def items(self, name: str, *, optional: bool = False) -> Sequence[object]:
        value = self.get(name)
        if optional and value is None:
            return []
        if not _is_array(value):
            raise self._wrong(name, "must be an array")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.get(name)
        if value is None and default is not None:
            return default
        return self._checked(name, value)

    def optional_text(self, name: str) -> str | None:
        value = self.get(name)
        return None if value is None else self._checked(name, value)

    def texts(self, name: str, check: Callable[[str, str], str] | None = None) -> Sequence[str]:
        """An array of texts, at least one."""
        values = self.items(name)
        if not values:
            raise self._wrong(name, "must not be empty")
        found: list[str] = []
        for index, value in enumerate(values):
            where = f"{name}.{index}"
            text = self._checked(where, value)
            if not text.strip():
                raise self._wrong(where, "must not be empty")
            found.append(text if check is None else check(text, f"{self.field}.{where}"))
        return found

    def text_map(self, name: str) -> Mapping[str, str]:
        value = self.get(name)
        if not _is_object(value):
            raise self._wrong(name, "must be an object")
        return {key: self._checked(f"{name}.{key}", each) for key, each in value.items()}

    def _checked(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(name, "is missing" if value is None else "must be a text")
        if "\0" in value:
            raise self._wrong(name, "must not contain NUL")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self._wrong(name, "is no valid Unicode") from None
        return value

    def _wrong(self, name: str, what: str) -> InvalidInput:
        return InvalidInput(f"{self.field}.{name}: {what}", field=f"{self.field}.{name}")


def package(name: str, field: str) -> str:
    """A package as apt or pip may be given it: no option, on one line."""
    if name.startswith("-") or not name.isprintable():
        raise InvalidInput(f"{field}: {name!r} does not name a package", field=field)
    return name


def variable_name(name: str, field: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise InvalidInput(f"{field}: {name!r} is no name for a variable", field=field)
    return name


def absolute_path(path: str, field: str) -> str:
    """A normal absolute path. One that leads upwards is refused, not resolved."""
    if not path.startswith("/"):
        raise InvalidInput(f"{field}: must be an absolute path", field=field)
    return "/" + _normal(path, field)


def relative_path(path: str, field: str) -> str:
    """A normal path below a directory."""
    if path.startswith("/"):
        raise InvalidInput(f"{field}: must be a relative path", field=field)
    normal = _normal(path, field)
    if not normal or path.endswith("/"):
        raise InvalidInput(f"{field}: must name a file", field=field)
    return normal


def file_content(encoded: str, field: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{field}: is not valid base64", field=field) from None


def file_mode(text: str | None, field: str) -> int | None:
    """Permission bits in octal; set-user-ID and its like are not for images."""
    if text is None:
        return None
    if not _MODE.fullmatch(text):
        raise InvalidInput(f"{field}: must be three octal digits, as 755", field=field)
    return int(text, 8)


def whole(value: object, default: int) -> int | None:
    """A whole number; None when it is something else."""
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _normal(path: str, field: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidInput(f"{field}: must not contain '..'", field=field)
    normal = posixpath.join(*parts) if parts else ""
    if len(normal.encode()) > _MAX_PATH or any(len(part.encode()) > _MAX_PART for part in parts):
        raise InvalidInput(f"{field}: is too long", field=field)
    return normal


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict) and all(
        isinstance(key, str) for key in cast("dict[object, object]", value)
    )


def _is_array(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
