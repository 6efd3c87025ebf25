from __future__ import annotations

import json
from typing import Any

import pytest

from jobqueued.api.app import Router
from jobqueued.api.errors import Problem
from jobqueued.api.openapi import ROUTES, describe
from jobqueued.api.routes import Route
from jobqueued.model.errors import NotFound

DOCUMENT: dict[str, Any] = json.loads(json.dumps(describe(ROUTES)))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_found(route: Route) -> None:
    found, job_id = Router().find(route.method, route.path.replace("{id}", "some-id"))
    assert (found, job_id) == (route, "some-id" if "{id}" in route.path else "")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "GET"])
def test_head_is_answered_like_get(route: Route) -> None:
    assert Router().find("HEAD", route.path)[0] is route


def test_an_id_may_be_percent_encoded() -> None:
    assert Router().find("GET", "/jobs/%41%2fb")[1] == "A/b"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "*",
        "jobs",
        "//",
        "/jobs/",
        "/jobs//cancel",
        "/jobs/x/",
        "/jobs/x/cancel/",
        "/jobs/x/nothing",
        "/jobs/x/y/z",
        "/job",
        "//jobs",
        "/Jobs",
        "x/jobs/y",
        "/batches",
        "/leases/x",
    ],
)
def test_an_unknown_path_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        Router().find("GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/jobs", "GET, HEAD, POST"),
        ("GET", "/jobs/batch", "POST"),
        ("POST", "/jobs/x", "GET, HEAD"),
        ("GET", "/jobs/x/cancel", "POST"),
        ("OPTIONS", "/stats", "GET, HEAD"),
    ],
)
def test_a_wrong_method_says_which_are_right(method: str, path: str, allowed: str) -> None:
    with pytest.raises(Problem) as caught:
        Router().find(method, path)
    assert (caught.value.status, caught.value.headers) == (405, (("Allow", allowed),))


def test_the_description_has_every_route_and_no_other() -> None:
    described = {
        (method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item
    }
    assert described == {(route.method, route.path) for route in ROUTES}
    assert len(ROUTES) == len(described)


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [(path, one) for path, item in DOCUMENT["paths"].items() for one in item.values()]


def test_the_description_is_well_formed() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert set(DOCUMENT) == {"openapi", "info", "paths", "components"}
    for path, operation in operations():
        assert operation["summary"]
        assert any(status.startswith("2") for status in operation["responses"])
        in_path = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
        assert in_path == (["id"] if "{id}" in path else [])
        for response in operation["responses"].values():
            assert response["description"]
            assert response["content"]


def test_operation_names_are_unique() -> None:
    names = [operation["operationId"] for _, operation in operations()]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    references = set(_references(DOCUMENT))
    assert references == {f"#/components/schemas/{name}" for name in schemas}


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [one for value in node.values() for one in _references(value)]
    if isinstance(node, list):
        return [one for value in node for one in _references(value)]
    return []


def test_the_description_names_what_a_job_may_have() -> None:
    body = DOCUMENT["paths"]["/jobs"]["post"]["requestBody"]["content"]["application/json"]
    schema = body["schema"]
    assert schema["required"] == ["type"]
    assert schema["additionalProperties"] is False
    priority = schema["properties"]["priority"]
    assert (priority["minimum"], priority["maximum"]) == (0, 9)
    batch = DOCUMENT["paths"]["/jobs/batch"]["post"]["requestBody"]["content"]["application/json"]
    assert batch["schema"]["properties"]["jobs"]["items"] == schema
