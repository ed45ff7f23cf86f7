"""The two HTTP APIs, from their OpenAPI documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from opencomputer.server.http.app import create_app
from opencomputer.server.http.session_api.app import session_api
from opencomputer.server.services.facade import Services
from site_reference.meanings import field_meanings
from site_reference.tables import code, table

Json = Mapping[str, Any]

_CREDENTIALS = {
    "apiKey": "an API key",
    "sandboxToken": "the sandbox's token",
    "clientToken": "a client token of the session",
}
_TITLES = {
    "api keys": "API keys",
    "exec": "Commands and exec sessions",
    "allowed hosts": "Allowed hosts",
    "health": "For operators",
}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_VERBS = {
    *("create", "get", "delete", "update", "revoke", "publish", "unpublish", "restore", "rotate", "kill")
} | {*("start", "read", "write", "remove", "post", "redeliver", "add", "put", "build")}
_SINGULAR = {"sandboxes": "sandbox", "patches": "patch", "skills": "skills", "deliveries": "delivery"}
# Documents are made without a server, so nothing of it is used.
NOTHING = cast(Services, None)


def sandbox_api() -> str:
    """The page of `/api`."""
    head = """# HTTP: sandboxes

Everything below `/api` takes JSON and answers with JSON. Send the API key as `X-API-Key: osb_…` (or as
`Authorization: Bearer`). Calls *in* a sandbox also take that sandbox's own token. A refusal is
`{"error": "…", "code": "…"}`; see [error codes](errors.md).

```sh
curl -H "X-API-Key: $OPENCOMPUTER_API_KEY" "$OPENCOMPUTER_API_URL/api/sandboxes"
```

Sockets are not in this list: `GET /api/sandboxes/{id}/exec/{session}`, `…/pty/{session}` and
`…/agent/{session}` are WebSockets. The document itself is at `/api/openapi.json` of every server.
"""
    return _page(head, create_app(NOTHING).openapi())


def sessions_api() -> str:
    """The page of `/v3`."""
    head = """# HTTP: durable agents and sessions

Everything below `/v3` takes JSON and answers with JSON. Send the API key as `Authorization: Bearer osb_…`;
reading and steering one session also work with a client token for it. A refusal is
`{"error": {"type", "code", "message", "param", "request_id"}}`; see [error codes](errors.md). Lists come in
pages: ask again with `cursor=` what `next_cursor` said.

The events of a session are described [on their own page](events.md). The document itself is at
`/v3/openapi.json` of every server.
"""
    return _page(head, session_api(NOTHING).openapi())


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Method, path and operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _page(head: str, document: Json) -> str:
    by_noun: dict[str, list[tuple[str, str, Json]]] = {}
    for method, path, operation in operations(document):
        by_noun.setdefault(operation["tags"][0], []).append((method, path, operation))
    # The noun itself comes before what is done with one of them.
    nouns = sorted(by_noun, key=lambda noun: (noun == "health", noun not in ("sandboxes", "sessions"), noun))
    schemas: Json = document["components"]["schemas"]
    parts = [head]
    for noun in nouns:
        parts.append(f"## {_TITLES.get(noun, noun.capitalize())}\n")
        found = sorted(by_noun[noun], key=lambda each: (each[1], _METHODS.index(each[0])))
        parts += [_operation(method, path, each, schemas) for method, path, each in found]
    parts.append("## Shapes\n\nWhat the answers consist of.\n")
    parts += [_shape(name, schemas[name]) for name in sorted(_answered(document))]
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Json, schemas: Json) -> str:
    anchor = re.sub(r"\W+", "-", f"{method} {path}".lower()).strip("-")
    parts = [f"### {_title(operation)} {{ #{anchor} }}\n", f"```text\n{method} {path}\n```\n"]
    if "description" in operation:
        parts.append(f"{operation['description']}\n")
    opened = [_CREDENTIALS[name] for each in operation["security"] for name in each if name in _CREDENTIALS]
    parts.append(f"Takes {' or '.join(opened)}.\n" if opened else "Takes no credential.\n")
    parts.append(
        table(
            ("Parameter", "In", "Type", "Meaning"),
            (
                (
                    code(each["name"]) + (" \\*" if each.get("required") else ""),
                    each["in"],
                    _type(each["schema"]),
                    each.get("description", ""),
                )
                for each in operation["parameters"]
                # What is in the path is seen there.
                if each["in"] != "path" or "description" in each
            ),
        )
    )
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(_body(media_type, content["schema"], schemas))
    parts.append(_answers(operation["responses"]))
    return "\n".join(part for part in parts if part)


def _title(operation: Json) -> str:
    """What it does, and to what where the verb alone would not say."""
    words, noun = operation["summary"].lower().split(), operation["tags"][0]
    if len(words) == 1 and words[0] in _VERBS and noun.endswith("s"):
        words.append(_SINGULAR.get(noun) or noun.removesuffix("s"))
    return " ".join(words).capitalize().replace(" url", " URL").replace(" am i", " am I")


def _body(media_type: str, schema: Json, schemas: Json) -> str:
    name = _name(schema)
    if name is None:
        return f"Body: {_type(schema)}, `{media_type}`.\n"
    return "Body:\n\n" + _fields(name, schemas[name])


def _answers(responses: Json) -> str:
    said: list[str] = []
    for status, answer in responses.items():
        if status.isdigit():
            schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
            shape = _type(schema) if schema else ""
            said.append(f"**{status}**" + (f" {shape}" if shape not in ("", "anything") else ""))
    return f"Answers {', '.join(said)}.\n"


def _shape(name: str, schema: Json) -> str:
    fields = _fields(name, schema) or "No fields.\n"
    return f"### {name} {{ #{name.lower()} }}\n\n{fields}"


def _fields(shape: str, schema: Json) -> str:
    required, meanings = set(schema.get("required", ())), _meanings()
    return table(
        ("Field", "Type", "Default", "Meaning"),
        (
            (
                code(name) + (" \\*" if name in required else ""),
                _type(field),
                code(str(field["default"])) if field.get("default") is not None else "",
                field.get("description", "") or meanings.get((shape, name), ""),
            )
            for name, field in schema.get("properties", {}).items()
        ),
    )


@cache
def _meanings() -> Mapping[tuple[str, str], str]:
    return field_meanings()


def _name(schema: Json) -> str | None:
    reference: str = schema.get("$ref", "")
    return reference.rpartition("/")[2] or None


def _type(schema: Json) -> str:
    """Of a schema, in words; shapes of answers are links."""
    if name := _name(schema):
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        words = [_type(each) for each in choices if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(words)) or "null"
    if "enum" in schema:
        return ", ".join(code(str(each)) for each in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object":
            within = schema.get("additionalProperties")
            return f"map to {_type(cast(Json, within))}" if isinstance(within, dict) and within else "object"
        case "string" if schema.get("format") == "binary":
            return "bytes"
        case str(word):
            return word
        case _:
            return "anything"


def _answered(document: Json) -> set[str]:
    """The shapes that pages link to: those of answers and of fields, with all that is in them."""
    schemas: Json = document["components"]["schemas"]
    found: set[str] = set()

    def follow(value: object) -> None:
        if isinstance(value, dict):
            of = cast(Json, value)
            name = _name(of)
            if name is not None and name not in found:
                found.add(name)
                follow(schemas[name])
            for inner in of.values():
                follow(inner)
        elif isinstance(value, list):
            for inner in cast(list[object], value):
                follow(inner)

    for _, _, operation in operations(document):
        follow({status: each for status, each in operation["responses"].items() if status.isdigit()})
        for content in operation.get("requestBody", {}).get("content", {}).values():
            name = _name(content["schema"])
            follow(schemas[name].get("properties", {}) if name else content)
    return found
