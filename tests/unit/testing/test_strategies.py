"""What the strategies generate is what the bus takes."""

from typing import Any

from hypothesis import given, settings

from partibus.domain.limits import BASIC, MESSAGE_ID_LENGTH_MAX
from partibus.domain.names import admit_path, admit_subscription_name
from partibus.testing import strategies


@given(strategies.entity_names())
def test_names_are_admitted_by_the_smallest_tier(name: str) -> None:
    admit_path(name, BASIC)


@given(strategies.entity_names(260))
def test_long_names_too(name: str) -> None:
    admit_path(name, BASIC)


@given(strategies.subscription_names())
def test_names_of_subscriptions_are_admitted(name: str) -> None:
    admit_subscription_name(name, BASIC)


@settings(max_examples=30)
@given(strategies.message_fields(in_sessions=True))
def test_fields_are_within_their_limits(fields: dict[str, Any]) -> None:
    assert 1 <= len(fields["session_id"]) <= MESSAGE_ID_LENGTH_MAX
    assert len(fields.get("message_id", "")) <= MESSAGE_ID_LENGTH_MAX
    assert "partition_key" not in fields


@settings(max_examples=30)
@given(strategies.messages())
def test_messages_are_the_sdks(message: Any) -> None:
    assert message.session_id is None
