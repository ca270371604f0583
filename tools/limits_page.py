"""`python tools/limits_page.py`: the tables of docs/reference/limits.md, from the code.

Prints the tables that belong between the page's marks; with --write it puts them there. A test
compares the page with this output, so that the page cannot go stale.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from partibus.control.declared.limits_config import LIMITS
from partibus.domain import limits
from partibus.domain.duration import DURATION_MAX_MS, format_duration
from partibus.domain.limits import KILOBYTE, PROFILES, UNLIMITED, Profile

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "limits.md"
BEGIN, END = "<!-- {} begin -->", "<!-- {} end -->"

# In the order of the page: the limit's name in a file, what it is, and the rules.
PARTS: Final = {
    "namespace": {
        "entities_max": "queues and topics (QTA-2)",
        "partitioned_entities_max": "queues and topics with partitions (QTA-3)",
        "subscriptions_per_topic_max": "subscriptions of a topic (QTA-11)",
        "sql_filters_per_topic_max": "SQL filters of a topic (QTA-12)",
        "correlation_filters_per_topic_max": "correlation filters of a topic (QTA-12)",
        "policies_per_level_max": "policies of the namespace, and of each entity (QTA-14)",
    },
    "properties": {
        "entity_megabytes": "sizes that an entity may have, in MB (QTA-4)",
        "message_bytes_default": "largest message of an entity that sets no limit",
        "message_bytes_max": "largest limit that an entity may set (QTA-6)",
        "http_message_bytes_max": "largest message over HTTP (QTA-6)",
        "lock_duration_min": "shortest LockDuration (CON-18)",
        "lock_duration_max": "longest LockDuration",
        "time_to_live_max": "longest DefaultMessageTimeToLive",
        "duplicate_window_min": "shortest duplicate window",
        "duplicate_window_max": "longest duplicate window",
        "auto_delete_on_idle_min": "shortest AutoDeleteOnIdle (IDL-1)",
        "max_delivery_count_max": "largest MaxDeliveryCount",
    },
    "clients": {
        "connections_max": "AMQP connections of a worker process (QTA-9)",
        "links_per_connection_max": "links of a connection (QTA-18)",
        "tokens_per_connection_max": "tokens of a connection (SAS-9)",
        "receives_per_entity_max": "receivers of a queue or topic, in a worker process (QTA-10)",
        "peek_messages_max": "messages of one peek (QTA-16)",
        "batch_delete_messages_max": "messages of one batch delete (QTA-16, CON-24)",
        "transaction_messages_max": "messages sent in a transaction (QTA-15)",
        "transaction_operations_max": "messages settled in a transaction (TXN-8)",
        "transaction_duration_max": "life of a transaction after its first operation (TXN-7)",
    },
}
FIXED: Final = {
    "ENTITY_PATH_LENGTH_MAX": "characters in the path of a queue or topic (ENT-6)",
    "SUBSCRIPTION_NAME_LENGTH_MAX": "characters in the name of a subscription (ENT-6)",
    "RULE_NAME_LENGTH_MAX": "characters in the name of a rule (ENT-6)",
    "POLICY_NAME_LENGTH_MAX": "characters in the name of a policy",
    "USER_METADATA_LENGTH_MAX": "characters of UserMetadata (PRP-1)",
    "MESSAGE_ID_LENGTH_MAX": "characters of a MessageId (QTA-8)",
    "SESSION_ID_LENGTH_MAX": "characters of a SessionId (QTA-8)",
    "PROPERTY_BYTES_MAX": "bytes of one application property (QTA-7)",
    "HEADER_BYTES_MAX": "bytes of all headers and properties of a message (QTA-7)",
    "FILTER_LENGTH_MAX": "characters of a filter or an action (QTA-13)",
    "ACTION_EXPRESSIONS_MAX": "expressions of an action (QTA-13)",
    "FRAGMENTS_MAX": "partitions of an entity (SEQ-4)",
    "TIME_TO_LIVE_MS_MIN": "milliseconds of the shortest DefaultMessageTimeToLive (TTL-11)",
    "MESSAGE_BYTES_MOST": "bytes of a message, whatever the file says",
}


def tables() -> dict[str, str]:
    """The text of each table, by its name."""
    made = {part: "\n".join(_by_profile(rows)) for part, rows in PARTS.items()}
    fixed = [f"| {text} | {getattr(limits, name):,} |" for name, text in FIXED.items()]
    return {**made, "fixed": "\n".join(["| limit | value |", "|---|---|", *fixed])}


def _by_profile(rows: dict[str, str]) -> Iterator[str]:
    yield f"| key | limit | {' | '.join(PROFILES)} | may hold |"
    yield "|" + "---|" * (len(PROFILES) + 3)
    for key, text in rows.items():
        values = " | ".join(_shown(key, profile) for profile in PROFILES.values())
        yield f"| `{key}` | {text} | {values} | {LIMITS[key].holds} |"


def _shown(key: str, profile: Profile) -> str:
    field = LIMITS[key].field
    value = getattr(profile, field)
    if value == UNLIMITED or (value == DURATION_MAX_MS and "_ms_" in field):
        return "unlimited"
    if value is None:
        return "any"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if "_ms_" in field:
        return format_duration(value)
    return f"{value // KILOBYTE} KB" if "bytes" in field else f"{value:,}"


def filled(page: str) -> str:
    """The page with every table between its marks made again."""
    for name, table in tables().items():
        begin, end = BEGIN.format(name), END.format(name)
        head, rest = page.split(begin, 1)
        page = f"{head}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}"
    return page


def main() -> int:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for name, table in tables().items():
            print(f"\n{name}\n\n{table}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
