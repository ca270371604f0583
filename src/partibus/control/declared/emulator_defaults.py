"""The entities of the vendor's emulator without a configuration file.

Owns their names and rules. What is not set here is a default of the emulator's file
(`emulator_config`), which the vendor's own sample repeats for each entity. Used by the server when
it starts in emulator mode without a file.
"""

import json
from pathlib import Path
from typing import Final

from partibus.control.declared.definitions import Definitions
from partibus.control.declared.emulator_config import parse_emulator_config

_NAME: Final = Path("default entities of the emulator")
"""What an error names instead of a file."""


def default_definitions() -> Definitions:
    """A queue, and a topic whose subscriptions have each kind of rule."""
    namespace = {
        "Name": "sbemulatorns",
        "Queues": [{"Name": "queue.1"}],
        "Topics": [{"Name": "topic.1", "Subscriptions": _subscriptions()}],
    }
    document = {"UserConfig": {"Namespaces": [namespace]}}
    return parse_emulator_config(_NAME, json.dumps(document, indent=2))


def _subscriptions() -> list[dict[str, object]]:
    return [
        _subscription(1, _correlation("app-prop-filter-1", ContentType="application/json")),
        _subscription(2, _correlation("user-prop-filter-1", Properties={"prop1": "value1"})),
        _subscription(3),
        _subscription(
            4,
            _sql(
                "sql-filter-1",
                "sys.MessageId = '123456' AND userProp1 = 'value1'",
                "SET sys.To = 'Entity'",
            ),
        ),
    ]


def _subscription(number: int, *rules: dict[str, object]) -> dict[str, object]:
    return {"Name": f"subscription.{number}", "Rules": list(rules)}


def _correlation(name: str, **conditions: object) -> dict[str, object]:
    properties = {"FilterType": "Correlation", "CorrelationFilter": conditions}
    return {"Name": name, "Properties": properties}


def _sql(name: str, expression: str, action: str) -> dict[str, object]:
    properties = {
        "FilterType": "Sql",
        "SqlFilter": {"SqlExpression": expression},
        "Action": {"SqlExpression": action},
    }
    return {"Name": name, "Properties": properties}
