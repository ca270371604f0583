"""What HTTP clients send: Atom entries, properties in headers, batches, and the JSON surfaces."""

import json
from typing import Final

from fuzz.target import Target
from partibus.atom.descriptions import NAMES, described_kind, read_spec, write_description
from partibus.atom.markup import SERVICE_BUS
from partibus.atom.reading import read_entry
from partibus.atom.rules import read_rule, write_rule
from partibus.bulk import requests as bulk
from partibus.control.declared.properties import new_spec
from partibus.domain.errors import BusError
from partibus.domain.refusal import PropertyRefused
from partibus.message.envelope import to_stored
from partibus.rest.batch import read_batch
from partibus.rest.broker_properties import parse_header
from partibus.rest.message import encode_message
from partibus.rest.property_headers import read_headers, text_of, write_headers
from partibus.rules.check import check_rule
from partibus.server.fault_injection.requests import read_request as read_fault

ENTRY: Final = (
    '<entry xmlns="http://www.w3.org/2005/Atom">'
    '<content type="application/xml">{}</content></entry>'
)
INSTANCE: Final = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'


def atom(data: bytes) -> None:
    """An entry as the management clients send it: an entity, or a rule."""
    description = read_entry(data)
    if description.name.endswith("RuleDescription"):
        rule = read_rule(description, "")
        check_rule(rule)
        written = write_rule(rule, "2024-06-01T12:00:00Z")
    else:
        kind = described_kind(description, NAMES)
        written = write_description(read_spec(description, kind), {})
    read_entry(ENTRY.format(written).encode())


def _entry(name: str, inner: str) -> bytes:
    element = f'<{name} xmlns="{SERVICE_BUS}" {INSTANCE}>{inner}</{name}>'
    return ENTRY.format(element).encode()


def _atom_seeds() -> list[bytes]:
    value = (
        "<Parameters><KeyValueOfstringanyType><Key>@a</Key>"
        '<Value i:type="d:int" xmlns:d="http://www.w3.org/2001/XMLSchema">1</Value>'
        "</KeyValueOfstringanyType></Parameters>"
    )
    sql = f'<Filter i:type="SqlFilter"><SqlExpression>a = @a</SqlExpression>{value}</Filter>'
    correlated = '<Filter i:type="CorrelationFilter"><Label>x</Label></Filter>'
    action = '<Action i:type="SqlRuleAction"><SqlExpression>SET a = 1</SqlExpression></Action>'
    queue = "<LockDuration>PT30S</LockDuration><MaxDeliveryCount>4</MaxDeliveryCount>"
    return [
        _entry("QueueDescription", queue + "<RequiresSession>true</RequiresSession>"),
        _entry("TopicDescription", "<DefaultMessageTimeToLive>P1D</DefaultMessageTimeToLive>"),
        _entry("SubscriptionDescription", "<Status>Active</Status><ForwardTo>q</ForwardTo>"),
        _entry("RuleDescription", f"{sql}{action}<Name>r</Name>"),
        _entry("RuleDescription", correlated),
    ]


# --- messages over HTTP -------------------------------------------------------------------------


def send(data: bytes) -> None:
    """A send: BrokerProperties in the first line, a header in each further one, then the body."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    pairs = [line.partition(b":")[::2] for line in lines]
    properties = parse_header(text_of(first))
    application = read_headers(pairs)
    to_stored(encode_message(body, properties, application))
    write_headers(application)


SEND_SEEDS: Final = (
    b'{"MessageId": "m", "TimeToLive": 30, "Label": "x"}\ncolor: "red"\nn: 5\n\nbody',
    b'{"SessionId": "s", "TimeToLiveTimeSpan": "1.00:00:40.5", "PartitionKey": "s"}\n\n',
    b'{"ScheduledEnqueueTimeUtc": "Sun, 06 Nov 1994 08:49:37 GMT"}\nx: 2.5e3\ny: true',
    b'{"ScheduledEnqueueTimeUtc": "2030-01-01T00:00:00Z"}\nt: "Sun, 06 Nov 1994 08:49:37 GMT"',
)


def batch(data: bytes) -> None:
    """A batch in JSON."""
    for payload in read_batch(data):
        to_stored(payload)


BATCH_SEEDS: Final = (
    b'[{"Body": "a", "BrokerProperties": {"Label": "x"}, "UserProperties": {"n": 1, "f": 2.5}}]',
    b'[{"Body": "AAEC", "IsBodyBase64Encoded": true}, {"Body": "b"}]',
)

# --- the JSON surfaces --------------------------------------------------------------------------

_BULK: Final = (
    bulk.StatusRequest,
    bulk.PlanRequest,
    bulk.FindRequest,
    bulk.ClaimRequest,
    bulk.Ticket,
    bulk.PublishRequest,
    bulk.DropStagesRequest,
)


def bulk_request(data: bytes) -> None:
    """A ticket, a descriptor or an action of the bulk path; the first byte says which."""
    if data:
        bulk.read_request(data[1:], _BULK[data[0] % len(_BULK)])
        bulk.read_put(data[1:])


BULK_SEEDS: Final = (
    b'\x00{"entity": "q", "fragments": [0, 1]}',
    b'\x01{"entity": "q", "from": {"0": 5}, "limits": {"0": {"messages": 10}}}',
    b'\x03{"entity":"q","owner":"o","epoch":1,"start":"a","duration_ms":5000,"limits":{}}',
    b'\x04{"entity": "q", "fragment": 0, "mode": "range", "choice": {"filter": "a = 1"}}',
    b'\x05{"entity":"q","writer":"w","series":"s","epoch":1,"batch":0,"stages":[["a",1]]}',
    b'\x06{"entity": "q", "deliver": "staged", "writer": "w", "epoch": 1, "stage": "s"}',
)


def administration(data: bytes) -> None:
    """A request of the administration: a new entity, or a fault."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(body, dict) and isinstance(body.get("properties"), dict):
        new_spec(str(body.get("kind", "queue")), body["properties"])
    read_fault(body)


ADMINISTRATION_SEEDS: Final = (
    b'{"kind": "queue", "properties": {"lock_duration": "PT30S", "max_delivery_count": 3}}',
    b'{"kind": "subscription", "properties": {"requires_session": true, "status": "Active"}}',
    b'{"kind": "topic", "properties": {"enable_partitioning": true, "partition_count": 4}}',
    b'{"kind": "store", "store": 1, "mode": "slow", "delay_ms": 5, "for_ms": 1000}',
    b'{"kind": "throttle", "entity": "q", "rate_per_s": 2.5}',
)

TARGETS: Final = (
    Target(
        name="atom-entries",
        takes="an Atom entry of a management client",
        execute=atom,
        answers=(BusError, PropertyRefused),
        seeds=_atom_seeds,
    ),
    Target(
        name="http-sends",
        takes="BrokerProperties, headers and the body of a send over HTTP",
        execute=send,
        answers=(BusError,),
        seeds=lambda: SEND_SEEDS,
    ),
    Target(
        name="http-batches",
        takes="a batch of messages in JSON",
        execute=batch,
        answers=(BusError,),
        seeds=lambda: BATCH_SEEDS,
    ),
    Target(
        name="bulk-requests",
        takes="a request of the bulk path",
        execute=bulk_request,
        answers=(BusError,),
        seeds=lambda: BULK_SEEDS,
    ),
    Target(
        name="administration",
        takes="a JSON request of the administration",
        execute=administration,
        answers=(BusError, PropertyRefused),
        seeds=lambda: ADMINISTRATION_SEEDS,
    ),
)
