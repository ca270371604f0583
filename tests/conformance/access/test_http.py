"""The access table over HTTP: the data plane, the management API and the JSON surface."""

from typing import Any

import pytest

from conformance.access.holders import HOLDERS, MANAGE, Holder
from conformance.access.http_operations import (
    UNAUTHORIZED,
    Request,
    Requests,
    data_plane,
    expected,
    json_surface,
    management,
    message_surface,
    observed,
)
from conformance.access.stage import Stage, snapshot
from conformance.rest.http_bus import HttpBus
from partibus.ops.admin.routes import admin_routes
from partibus.rest.routes import data_routes
from support.json_admin import JsonAdmin
from support.server import ServerProcess


def check(
    server: ServerProcess, admin: JsonAdmin, stage: Stage, requests: Requests, holder: Holder
) -> None:
    """Do everything; what is not allowed is refused with words, and leaves no trace."""
    before = snapshot(admin, stage)
    answers = observed(server, requests, holder)
    assert {name: answer.status for name, answer in answers.items()} == expected(requests, holder)
    for name, answer in answers.items():
        if answer.status == UNAUTHORIZED:
            assert answer.body, name
            assert not [key for key in (holder.key,) if key.encode() in answer.body]
            if holder.rights and holder.level == "namespace":
                assert f"'{requests[name].right}' claim(s) are required" in answer.body.decode()
    if not any(holder.may(request.right, request.level) for request in requests.values()):
        assert snapshot(admin, stage) == before


@pytest.mark.rule("SAS-6", "SAS-8", "SAS-11", "HTP-4")
@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_data_plane(server: ServerProcess, admin: JsonAdmin, stage: Stage, holder: Holder) -> None:
    requests = data_plane(stage, HttpBus(server.ready.http_port))
    check(server, admin, stage, requests, holder)


@pytest.mark.rule("SAS-6", "SAS-8", "SAS-11", "ERR-12")
@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_management(server: ServerProcess, admin: JsonAdmin, stage: Stage, holder: Holder) -> None:
    check(server, admin, stage, management(stage), holder)


@pytest.mark.rule("SAS-6", "SAS-8", "ERR-12")
@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_json_surface(
    server: ServerProcess, admin: JsonAdmin, stage: Stage, holder: Holder
) -> None:
    check(server, admin, stage, json_surface(stage), holder)


@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_messages_as_json(
    server: ServerProcess, admin: JsonAdmin, stage: Stage, holder: Holder
) -> None:
    check(server, admin, stage, message_surface(stage), holder)


def test_the_live_picture_needs_manage(server: ServerProcess, stage: Stage) -> None:
    request = Request(method="GET", path="/$partibus/live")
    for holder in HOLDERS:
        if not holder.may(MANAGE, "namespace"):
            assert request.ask(server, holder.token("")).status == 401, holder


def test_the_tables_have_every_route(server: ServerProcess, stage: Stage) -> None:
    nobody: Any = None
    asked = [
        *data_plane(stage, HttpBus(server.ready.http_port)).values(),
        *json_surface(stage).values(),
        *message_surface(stage).values(),
    ]
    for route in (*data_routes(nobody), *admin_routes(nobody)):
        if route.path.endswith(("/live", "/session", "/openapi.json")):
            continue  # a stream, the sign-in, and what needs no right: each has its own test
        if "/bulk/" in route.path:
            continue  # for senders and receivers; its own tests have its rights
        if route.path.endswith("/events"):
            continue  # its answer has no end; its own tests have its rights
        if "/messages" in route.path and "GET" in (route.methods or ()):
            continue  # looks nothing up and says only what to do instead
        assert [
            request
            for request in asked
            if request.method in (route.methods or ())
            and route.path_regex.match(request.path.partition("?")[0])
        ], f"{route.methods} {route.path} is not in the table"
