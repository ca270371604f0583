"""Documents of the management API: written in the vendor's order, read whatever the prefix."""

import re
from typing import Any

import pytest
from defusedxml import DefusedXmlException

from partibus.client.atom_documents import (
    Entry,
    entity_document,
    entity_fields,
    error_detail,
    read_document,
    rule_document,
    rule_fields,
    updated_document,
)
from partibus.domain.entity_properties import PROPERTIES, Kind


def entry_of(document: str) -> Entry:
    (entry,) = read_document(document.encode()).entries
    return entry


@pytest.mark.parametrize("kind", ["queue", "topic", "subscription"])
def test_what_is_written_is_read(kind: Kind) -> None:
    samples: dict[str, Any] = {
        "duration": "PT5S",
        "integer": 7,
        "boolean": True,
        "text": "a & <b>",
        "status": "Disabled",
    }
    fields = {field.key: samples[field.form] for field in PROPERTIES[kind]}
    read = entity_fields(entry_of(entity_document(kind, fields)), kind)
    assert read == {"name": "", **fields}


def test_elements_keep_the_vendors_order() -> None:
    document = entity_document("queue", {"max_delivery_count": 3, "lock_duration": "PT5S"})
    assert document.index("LockDuration") < document.index("MaxDeliveryCount")


def test_an_update_changes_one_and_keeps_the_rest() -> None:
    document = entity_document("queue", {"lock_duration": "PT5S", "user_metadata": "x"})
    entry = entry_of(document.replace("<LockDuration>", "<Odd>1</Odd><LockDuration>"))
    changed = updated_document(entry, "queue", {"max_delivery_count": 9, "user_metadata": ""})
    read = entity_fields(entry_of(changed), "queue")
    assert read == {"name": "", "lock_duration": "PT5S", "max_delivery_count": 9}
    assert re.findall(r"<(\w+)>", changed.split("content", 1)[1])[:3] == [
        "Odd",
        "LockDuration",
        "MaxDeliveryCount",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "r"},
        {"name": "r", "sql_filter": "a < 'b' AND c & 1"},
        {"name": "r", "sql_filter": "1=0", "action": "SET x = '<'"},
        {"name": "r", "correlation_filter": {"label": "x", "content_type": "y"}},
        {
            "name": "r",
            "correlation_filter": {
                "to": "t",
                "properties": {"i": 5, "l": 2**40, "f": 0.5, "b": False, "s": "5"}
                | {"t": {"time": "2020-07-05T11:12:13Z"}, "d": {"duration": "P1D"}},
            },
        },
    ],
)
def test_rules_there_and_back(rule: dict[str, Any]) -> None:
    document = rule_document(rule).replace("<content", '<title type="text">r</title><content')
    assert rule_fields(entry_of(document)) == rule


def test_a_subscription_may_begin_with_a_rule() -> None:
    rule = {"name": "$Default", "sql_filter": "a = 1"}
    document = entity_document("subscription", {"max_delivery_count": 3}, rule)
    assert "<DefaultRuleDescription><Filter" in document
    assert document.index("DefaultRuleDescription") < document.index("MaxDeliveryCount")


def test_a_feed_leads_to_its_next_page() -> None:
    entry = entity_document("queue", {}).split("?>")[1]
    feed = (
        f'<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="x"/>{{}}{entry}</feed>'
    )
    last = read_document(feed.format("").encode())
    assert (len(last.entries), last.next_skip) == (1, None)
    link = '<link rel="next" href="https://b/$Resources/queues?$skip=100&amp;$top=100"/>'
    assert read_document(feed.format(link).encode()).next_skip == 100


def test_a_hostile_answer_is_refused() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    with pytest.raises(DefusedXmlException):
        read_document(bomb)
    assert error_detail(bomb).startswith("<!DOCTYPE")


def test_the_words_of_an_error() -> None:
    assert error_detail(b"<Error><Code>404</Code><Detail>gone</Detail></Error>") == "gone"
    assert error_detail(b"plain words") == "plain words"
