"""Tokens put at `$cbs`: for which entities they are taken, what they open, and when they end."""

import pytest

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import (
    decode_application_properties,
    encode_application_properties,
    encode_properties,
    parse_sections,
)
from partibus.amqp.events import (
    DetachReceived,
    DispositionReceived,
    TransferReceived,
)
from partibus.client.cbs import sas_token
from partibus.control.access.policies import DEVELOPMENT_KEY, ROOT_POLICY_NAME
from partibus.domain.limits import EMULATOR, PREMIUM, SELFHOST, STANDARD
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain


def token(client: ClientBench, resource: str, expires_ms: int) -> str:
    return sas_token(f"sb://bus/{resource}", ROOT_POLICY_NAME, DEVELOPMENT_KEY, expires_ms // 1000)


def put_token(client: ClientBench, text: str, audience: str) -> int:
    replies = client.attach("$cbs", sends=False, name=f"replies-{audience}-{len(text)}")
    replies.set_credit(5)
    requests = client.attach("$cbs", sends=True, name=f"requests-{audience}-{len(text)}")
    client.send(
        requests,
        [
            encode_properties(MessageProperties(message_id="1"))
            + encode_application_properties({"operation": "put-token", "name": audience})
            + b"\x00\x53\x77"
            + encode_value(text)
        ],
    )
    (answer,) = client.take(TransferReceived)
    assert isinstance(answer, TransferReceived)
    code = decode_application_properties(answer.payload, parse_sections(answer.payload))
    number = code["status-code"]
    assert isinstance(number, int)
    for link in (replies, requests):
        link.detach()
    client.run()
    client.take(DetachReceived)
    assert len(client.take(DispositionReceived)) == 1
    return int(number)


@pytest.mark.rule("SAS-9", "ERR-1")
def test_tiers_of_the_service_refuse_a_token_for_an_entity_that_is_not_there() -> None:
    for profile, code in ((STANDARD, 404), (PREMIUM, 404), (SELFHOST, 202), (EMULATOR, 202)):
        bus = BusBench(profile=profile)
        bus.queue("q")
        client = bus.client()
        text = token(client, "", bus.clock.now_ms() + 60_000)
        assert put_token(client, text, "amqps://bus/missing") == code
        for known in ("q", "q/$management", "q/$deadletterqueue", ""):
            assert put_token(client, text, f"sb://bus/{known}") == 202
        assert put_token(client, text, "bus/missing") == 202, "the host may stand for a name"


@pytest.mark.rule("SAS-10")
def test_a_token_opens_links_and_its_end_closes_them() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client(plain=False)
    soon_ms = bus.clock.now_ms() + 60_000
    assert put_token(client, token(client, "q", soon_ms), "sb://bus/q") == 202
    sender = client.attach("q", sends=True)
    client.send(sender, [plain(1)])
    assert len(client.take(DispositionReceived)) == 1
    later_ms = bus.clock.now_ms() + 120_000
    bus.scheduler.advance_ms(50_000)
    assert put_token(client, token(client, "q", later_ms), "sb://bus/q") == 202
    bus.scheduler.advance_ms(20_000)
    client.run()
    assert client.take(DetachReceived) == [], "a renewed token keeps its links"
    bus.scheduler.advance_ms(60_000)
    client.run()
    (detached,) = client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == "amqp:unauthorized-access"


@pytest.mark.rule("SAS-10")
def test_a_step_of_the_clock_ends_tokens_within_seconds() -> None:
    bus = BusBench()
    bus.queue("q")
    client = bus.client(plain=False)
    text = token(client, "q", bus.clock.now_ms() + 3_600_000)
    assert put_token(client, text, "sb://bus/q") == 202
    client.attach("q", sends=True)
    bus.scheduler.advance_ms(30_000)
    client.run()
    bus.clock.step_wall_ms(7_200_000)
    bus.scheduler.advance_ms(2_000)
    client.run()
    assert len(client.take(DetachReceived)) == 1


@pytest.mark.rule("SAS-6")
def test_a_token_for_another_entity_is_refused() -> None:
    bus = BusBench()
    bus.queue("q")
    bus.queue("q2")
    client = bus.client(plain=False)
    text = token(client, "q2", bus.clock.now_ms() + 60_000)
    assert put_token(client, text, "sb://bus/q") == 401
