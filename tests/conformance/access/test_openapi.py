"""The OpenAPI document names every operation whose rights are tested, and no other."""

import json
import re

from conformance.access.http_operations import Request, json_surface
from conformance.access.stage import Stage
from support.server import ServerProcess


def _document(server: ServerProcess) -> dict[str, dict[str, dict[str, str]]]:
    answer = Request(method="GET", path="/$partibus/openapi.json").ask(server, None)
    assert answer.status == 200
    paths: dict[str, dict[str, dict[str, str]]] = json.loads(answer.body)["paths"]
    return paths


def test_every_operation_is_described(server: ServerProcess) -> None:
    paths = _document(server)
    stage = Stage(queue="q", sessions="s", topic="t", doomed="d")
    patterns = {
        (method.upper(), re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(path))))
        for path, methods in paths.items()
        for method in methods
    }
    for name, request in json_surface(stage).items():
        path = request.path.partition("?")[0]
        found = [1 for method, p in patterns if method == request.method and p.fullmatch(path)]
        assert found, f"{name}: {request.method} {path}"


def test_every_operation_has_a_sentence(server: ServerProcess) -> None:
    silent = [
        (method, path)
        for path, methods in _document(server).items()
        for method, operation in methods.items()
        if not operation["summary"]
    ]
    assert not silent
