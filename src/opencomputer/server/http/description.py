"""What an OpenAPI document has to say that FastAPI cannot see: bodies, credentials, headers and refusals.

Bodies are read by our own dependencies, whose return annotation is the model of what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

Schema = dict[str, Any]
Dependency = Callable[..., object]

_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"
_EVENT: Schema = {
    "type": "object",
    "properties": {each: {"type": "string"} for each in ("event", "id", "data")},
    "required": ["data"],
}
"""One of the events of a stream; `data` is JSON."""


@dataclass(frozen=True)
class Conventions:
    """What the routes of one application have in common.

    `credentials` are the schemes of which one has to be satisfied, by the dependency that asks for it;
    `headers` are those that a dependency reads.
    """

    summary: str
    refusal: type[BaseModel]
    schemes: Mapping[str, Schema]
    credentials: Mapping[Dependency, tuple[str, ...]]
    headers: Mapping[Dependency, Schema] = field(default_factory=dict[Dependency, Schema])


def query(name: str, description: str, *, required: bool = False, **schema: object) -> Schema:
    """A parameter of the query that a handler reads by itself, for `openapi_extra`."""
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def raw_body(media_type: str) -> Schema:
    """A body that is bytes, for `openapi_extra`."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "content": content}}


def not_offered(why: str) -> dict[int | str, Schema]:
    """The refusal of what this server, or a sandbox, does not have, for `responses`."""
    return {501: {"description": why}}


def not_yet(part: str) -> dict[int | str, Schema]:
    """The same for a part of the contract."""
    return not_offered(f"Not supported by this server yet: {part}.")


def repeated(model: type[BaseModel]) -> dict[int | str, Schema]:
    """What is answered when the thing is there already, for `responses`."""
    return {200: {"model": model, "description": "It was there already."}}


def event_stream(what: str) -> dict[int | str, Schema]:
    """What is answered to those who ask for a stream, for `responses`."""
    return {200: {"description": what, "content": {"text/event-stream": {"schema": _EVENT}}}}


BUILD_STREAM = event_stream("With `Accept: text/event-stream`: what the build says, and what came of it.")


def describe(app: FastAPI, routers: Iterable[tuple[str, APIRouter]], conventions: Conventions) -> None:
    """Have the document say all of it. `routers` are those that the application includes, with prefixes."""
    routes = [
        (prefix + each.path_format, each)
        for prefix, router in routers
        for each in router.routes
        if isinstance(each, APIRoute) and each.include_in_schema
    ]

    def document() -> Schema:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, routes, conventions)
        return app.openapi_schema

    app.openapi = document


def _document(app: FastAPI, routes: Sequence[tuple[str, APIRoute]], conventions: Conventions) -> Schema:
    document = get_openapi(
        title=app.title, version=app.version, summary=conventions.summary, routes=app.routes
    )
    bodies = {model for _, route in routes for model in _bodies(route.dependant)} | {conventions.refusal}
    named = sorted(bodies, key=lambda model: model.__name__)
    _, definitions = models_json_schema([(each, "validation") for each in named], ref_template=_REFERENCE)
    components = document.setdefault("components", {})
    schemas: Schema = components.setdefault("schemas", {})
    # FastAPI's own answer to faulty parameters, which ours replaces.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, definition in definitions["$defs"].items():
        schemas.setdefault(name, definition)
    components["securitySchemes"] = dict(conventions.schemes)
    for path, route in routes:
        for method in route.methods or ():
            _complete(document["paths"][path][method.lower()], route, conventions)
    return document


def _complete(operation: Schema, route: APIRoute, conventions: Conventions) -> None:
    calls = list(_calls(route.dependant))
    operation["tags"] = [route.endpoint.__module__.rpartition(".")[2].replace("_", " ")]
    for model in _bodies(route.dependant):
        schema = {"$ref": _REFERENCE.format(model=model.__name__)}
        # An empty body stands for an empty object.
        required = any(each.is_required() for each in model.model_fields.values())
        operation["requestBody"] = {"required": required, "content": {_JSON: {"schema": schema}}}
    parameters: list[Schema] = operation.setdefault("parameters", [])
    parameters.extend(conventions.headers[call] for call in calls if call in conventions.headers)
    # Handlers that take what the path names from the request do not name it themselves.
    named = {each["name"] for each in parameters if each["in"] == "path"}
    parameters.extend(_in_path(name) for name in sorted(route.param_convertors.keys() - named))
    asked = [conventions.credentials[call] for call in calls if call in conventions.credentials]
    operation["security"] = [{scheme: []} for scheme in (asked[0] if asked else ())]
    answers: Schema = operation["responses"]
    answers.pop("422", None)
    refused = {_JSON: {"schema": {"$ref": _REFERENCE.format(model=conventions.refusal.__name__)}}}
    for status in (each for each in answers if each[0] in "45"):
        answers[status].setdefault("content", refused)
    for statuses, meaning in (("4XX", "Refused."), ("5XX", "Failed, or not offered.")):
        answers[statuses] = {"description": meaning, "content": refused}


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _calls(dependant: Dependant) -> Iterator[Dependency]:
    for each in dependant.dependencies:
        if each.call is not None:
            yield each.call
        yield from _calls(each)


def _bodies(dependant: Dependant) -> Iterator[type[BaseModel]]:
    for call in _calls(dependant):
        model = getattr(call, "__annotations__", {}).get("return")
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield model
