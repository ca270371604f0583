"""What the server refuses, as the clients of other languages report it."""

from pathlib import Path

import pytest

from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation
from support.namespace import ROOT_POLICY
from support.sas import with_key
from support.server import ServerProcess

MISSING = {
    "Go": "amqp:not-found",
    "Java": "MESSAGING_ENTITY_NOT_FOUND",
    "Java async": "MESSAGING_ENTITY_NOT_FOUND",
    "Rust": "NotFound",
}
TOO_LARGE = {
    "Go": "toolarge",
    "Java": "MESSAGE_SIZE_EXCEEDED",
    "Java async": "MESSAGE_SIZE_EXCEEDED",
}
NOT_ALLOWED = {
    "Go": "unauthorized",
    "Java": "UNAUTHORIZED",
    "Java async": "UNAUTHORIZED",
    "Rust": "401",
}


@operation("missing entity reported", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("ERR-1")
def test_a_missing_queue(sdk: Sdk) -> None:
    # Java's synchronous receiver only says that it is terminated.
    for name in ("sendOnly",) if sdk.client == "Java" else ("sendOnly", "receiveOnly"):
        assert sdk.failure(name, queue="no-such-queue", size=1) == MISSING[sdk.client]


@operation("missing entity reported", "Go")
@pytest.mark.rule("ERR-1")
def test_a_missing_queue_in_the_profiles_of_the_service(sdk: Sdk, tmp_path: Path) -> None:
    """There its token is refused already, which Go has a code for."""
    config = tmp_path / "namespace.toml"
    config.write_text('[[queue]]\nname = "q"\n', encoding="utf-8")
    with ServerProcess(tmp_path, config, "--profile", "standard") as server:
        connection = server.connection_string
        code = sdk.failure("sendOnly", connection=connection, queue="no-such-queue", size=1)
    assert code == "notfound"


@operation("message too large reported", "Go", "Java", "Java async")
@pytest.mark.rule("ERR-8")
def test_a_message_that_is_too_large(sdk: Sdk, queue: str) -> None:
    assert sdk.failure("sendOnly", queue=queue, size=1_100_000) == TOO_LARGE[sdk.client]


@operation("message too large reported", "Rust")
@pytest.mark.rule("ERR-8")
def test_a_message_that_is_too_large_for_a_batch(sdk: Sdk, queue: str) -> None:
    """Rust's client measures messages that are added to a batch, with the size of the queue."""
    assert sdk.run("addToBatch", queue=queue, size=1_000_000) == 1
    assert sdk.failure("addToBatch", queue=queue, size=1_100_000) == "BatchFull"


@operation("wrong key reported", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("ERR-12")
def test_a_wrong_key(sdk: Sdk, queue: str) -> None:
    wrong = with_key(sdk.connection, ROOT_POLICY, "wrong")
    code = sdk.failure("sendOnly", connection=wrong, queue=queue, size=1)
    assert code == NOT_ALLOWED[sdk.client]
