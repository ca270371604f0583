"""A function for orders.toml: a message in, a message out."""

import json
from typing import Any


def checked(row: dict[str, Any]) -> dict[str, Any]:
    """Refuse orders without a customer; they go to the queue for failures with this text."""
    order = json.loads(row["body"])
    if not order.get("customer"):
        raise ValueError(f"order {order.get('order')} has no customer")
    row["partition_key"] = order["customer"]
    return row
