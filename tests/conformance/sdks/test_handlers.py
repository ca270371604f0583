"""Clients that call a handler for each message: Java's processor, and Spring's listener."""

from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation


@operation("handler", "Java processor")
def test_a_processor_calls_several_handlers_at_a_time(sdk: Sdk, queue: str) -> None:
    result = sdk.run("concurrent", queue=queue, count=50)
    assert result == {"bodies": list(range(50)), "left": 0}


@operation("handler that fails", "Java processor")
def test_a_message_whose_handler_failed_comes_again(sdk: Sdk, queue: str) -> None:
    assert sdk.run("failingHandler", queue=queue) == 2


@operation("receive and complete", "Spring")
def test_the_clients_that_the_starter_makes(sdk: Sdk, queue: str) -> None:
    assert sdk.run("complete", queue=queue) == {"bodies": ["one", "two"], "left": 0}


@operation("send", "Spring")
def test_a_template_sends(sdk: Sdk, queue: str) -> None:
    assert sdk.run("send", queue=queue) == {"body": "first", "colour": "red"}


@operation("handler", "Spring")
def test_a_listener_is_called(sdk: Sdk, queue: str) -> None:
    assert sdk.run("listener", queue=queue) == ["one", "two"]
