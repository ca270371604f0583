"""The messages that the table of SQL filters speaks of, by name."""

import datetime
from typing import Final
from uuid import UUID

from partibus.rules.view import MappingView

NOON: Final = datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)

MESSAGES: Final = {
    "empty": MappingView(),
    "order": MappingView(
        {
            "color": "red",
            "Quantity": 10,
            "price": 2.5,
            "big": 9223372036854775807,
            "small": -9223372036854775808,
            "unsigned": 18446744073709551615,
            "express": True,
            "gift": False,
            "note": None,
            "empty": "",
            "percent": "50%_off",
            "quote": "it's",
            "lines": "one\ntwo",
            "größe": "XL",
            "色": "赤",
            "emoji": "a😀b",
            "with space": 1,
            'a"b': 2,
            "a]b": 3,
            "in": 4,
            "HR-EmployeeID": "E7",
            "pattern": "r_d",
            "which": "color",
            "id": UUID("12345678-1234-5678-1234-567812345678"),
            "raw": b"\x01\x02",
            "when": NOON,
            "later": NOON + datetime.timedelta(hours=1),
            "age": datetime.timedelta(minutes=5),
            "list": [1, 2],
            "nan": float("nan"),
            "huge": 1e308,
            "zero": 0,
            "http://schema/Name": "account",
        },
        {
            "MessageId": "m-1",
            "Subject": "bus stop",
            "To": "Store5",
            "ContentType": "application/json",
            "TimeToLive": datetime.timedelta(minutes=10),
            "EnqueuedTimeUtc": NOON,
            "SequenceNumber": 42,
            "DeliveryCount": 0,
            "Size": 300,
        },
    ),
}
