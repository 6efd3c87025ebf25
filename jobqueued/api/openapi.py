"""The API's own description, OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from jobqueued import __version__
from jobqueued.api.answers import JSON, Answer
from jobqueued.api.calls import Call
from jobqueued.api.errors import PROBLEM_JSON, ProblemDocument
from jobqueued.api.fields import Field, Fields
from jobqueued.api.leases import BEAT, PROGRESS
from jobqueued.api.queries import Parameter
from jobqueued.api.routes import SERVICE_ROUTES, Route

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"
_EVERYWHERE = (403, 503)
"""Refusals any route may answer with."""


async def show_openapi(call: Call) -> web.StreamResponse:
    """The description itself."""
    return Answer(200, _DOCUMENT)


OPENAPI_ROUTE = Route(
    "GET",
    "/openapi.json",
    "show_openapi",
    show_openapi,
    "This description",
    {200: dict[str, Any]},
)
ROUTES: tuple[Route, ...] = (*SERVICE_ROUTES, OPENAPI_ROUTE)


def describe(routes: Iterable[Route]) -> Schema:
    """The whole description of these routes."""
    routes = list(routes)
    kinds = {kind for route in routes for kind in route.answers.values() if kind is not None}
    models = [kind for kind in kinds if _is_model(kind)]
    _, components = msgspec.json.schema_components(
        [*models, ProblemDocument], ref_template=_REFERENCE
    )
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jobqueued", "version": __version__},
        "paths": paths,
        "components": {"schemas": {name: components[name] for name in sorted(components)}},
    }


def _operation(route: Route) -> Schema:
    operation: Schema = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.body is not None:
        schema = _object_schema(route.body, route.lists)
        operation["requestBody"] = {
            "required": bool(route.body.required),
            "content": {JSON: {"schema": schema}},
        }
    return operation


def _parameters(route: Route) -> list[Schema]:
    found: list[Schema] = []
    if "{id}" in route.path:
        found.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    found += [_query_parameter(name, one) for name, one in route.query.items()]
    found += [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in route.headers
    ]
    return found


def _query_parameter(name: str, parameter: Parameter) -> Schema:
    schema = msgspec.json.schema(parameter.kind)
    if "$defs" in schema:
        (schema,) = schema["$defs"].values()
    if parameter.repeatable:
        schema = {"type": "array", "items": schema}
    return {"name": name, "in": "query", "description": parameter.about, "schema": schema}


def _responses(route: Route) -> Schema:
    found = {str(status): _response(status, kind) for status, kind in route.answers.items()}
    for status in sorted({*route.refusals, *_EVERYWHERE} - route.answers.keys()):
        found[str(status)] = _response(status, ProblemDocument, PROBLEM_JSON)
    return found


def _response(status: int, kind: Any, content_type: str = JSON) -> Schema:
    description = HTTPStatus(status).phrase
    if kind is None:
        content: Schema = {"text/plain": {"schema": {"type": "string"}}}
    else:
        content = {content_type: {"schema": _reference(kind)}}
    return {"description": description, "content": content}


def _reference(kind: Any) -> Schema:
    if _is_model(kind):
        return {"$ref": _REFERENCE.format(name=kind.__name__)}
    return msgspec.json.schema(kind)


def _object_schema(fields: Fields, lists: dict[str, Fields]) -> Schema:
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _property(name, one, lists) for name, one in fields.items()},
    }
    required = [name for name, one in fields.items() if one.required]
    return schema | ({"required": required} if required else {})


def _property(name: str, field: Field, lists: dict[str, Fields]) -> Schema:
    if name in lists:
        items = _object_schema(lists[name], {})
        return {"type": "array", "minItems": 1, "items": items, "description": field.about}
    if field is BEAT["progress"]:
        return _object_schema(PROGRESS, {}) | {"description": field.about}
    found: Schema = msgspec.json.schema(field.kind) | {"description": field.about}
    return found | ({} if field.default is None else {"default": field.default})


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


_DOCUMENT = msgspec.json.encode(describe(ROUTES))
