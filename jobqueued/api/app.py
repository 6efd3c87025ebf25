"""From a request to the answer: find the route, call it, turn what it raises into a problem."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from jobqueued.api.calls import Call, OpenEnds
from jobqueued.api.edge import check_edge
from jobqueued.api.errors import Problem, problem_of
from jobqueued.api.openapi import ROUTES
from jobqueued.api.queries import read_query
from jobqueued.api.routes import Route
from jobqueued.model.errors import NotFound

if TYPE_CHECKING:
    from jobqueued.engine.service import Engine

log = logging.getLogger(__name__)

Methods = dict[str, Route]


class Router:
    """Routes by their path: one look-up, two when the path has an id."""

    def __init__(self, routes: tuple[Route, ...] = ROUTES) -> None:
        self._fixed: dict[str, Methods] = {}
        self._with_id: dict[tuple[str, str], Methods] = {}
        for route in routes:
            self._methods_of(route.path)[route.method] = route
        for methods in (*self._fixed.values(), *self._with_id.values()):
            if "GET" in methods:
                methods["HEAD"] = methods["GET"]

    def find(self, method: str, path: str) -> tuple[Route, str]:
        """The route of a request and the id in its path."""
        methods = self._fixed.get(path)
        job_id = ""
        if methods is None:
            methods, job_id = self._find_with_id(path)
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            raise Problem(
                405,
                "method_not_allowed",
                f"This path answers to {allowed} only.",
                headers=(("Allow", allowed),),
            )
        return route, job_id

    def _find_with_id(self, path: str) -> tuple[Methods, str]:
        parts = path.split("/")
        if len(parts) in (3, 4) and not parts[0] and parts[2]:
            # A fourth part that is empty is a path with a slash too many.
            last = parts[3] or "/" if len(parts) == 4 else ""
            methods = self._with_id.get((parts[1], last))
            if methods is not None:
                return methods, unquote(parts[2])
        raise NotFound("There is nothing at this path; GET /openapi.json lists what there is.")

    def _methods_of(self, path: str) -> Methods:
        if "{id}" not in path:
            return self._fixed.setdefault(path, {})
        _, first, _, *last = path.split("/")
        return self._with_id.setdefault((first, last[0] if last else ""), {})


class App:
    """Answers every request of every connection."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.refused: Counter[str] = Counter()
        """Refused requests by the code of their problem."""
        self.open_ends = OpenEnds()
        self.router = Router()
        self._request_prefix = secrets.token_hex(4)
        self._request_numbers = count(1)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever it is."""
        try:
            check_edge(request)
            path, query = _target(request)
            route, job_id = self.router.find(request.method, path)
            if not job_id.isascii():
                raise NotFound("There is no such id.")
            values = read_query(query, route.query) if query else {}
            return await route.handler(Call(self, request, job_id, values))
        except Exception as error:
            return self.refuse(request, error)

    def refuse(self, request: web.BaseRequest, error: Exception) -> web.StreamResponse:
        """The answer to an error, counted and, when it is ours, logged."""
        request_id = f"{self._request_prefix}-{next(self._request_numbers):x}"
        problem = problem_of(error)
        if isinstance(error, ConnectionError):
            raise error
        self.refused[problem.code] += 1
        if problem.status == 500:
            what = f"{request.method} {request.path}"
            log.error("request %s (%s) failed", request_id, what, exc_info=error)
        if request.writer.output_size > 0:
            # Part of an answer is out: all that is left is to break off.
            raise ConnectionResetError("the answer broke off") from error
        return problem.answer(request_id)


def _target(request: web.BaseRequest) -> tuple[str, str]:
    """Path and query as sent; a proxy may send the whole address."""
    target = request.raw_path
    if not target.startswith("/"):
        url = request.rel_url
        return url.raw_path, url.raw_query_string
    path, _, query = target.partition("?")
    return path, query
