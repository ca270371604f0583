"""The orders of the demo: made from their numbers, so that every run and retry is the same.

Some are wrong on purpose. What is wrong with an order decides how billing fails on it, and which
rule of the triage applies to it.
"""

import json
from dataclasses import dataclass
from typing import Final

CUSTOMERS: Final = 200
FAVOURITE_EVERY: Final = 6
"""Every sixth order comes from one customer: a hot key, for the analytics to find."""
UNKNOWN_CURRENCY_EVERY: Final = 97
NEGATIVE_EVERY: Final = 131
STUCK_EVERY: Final = 211
EXPRESS_EVERY: Final = 8


@dataclass(frozen=True, slots=True)
class Order:
    """One order; the message id is its own, so that a retry is recognised."""

    number: int

    @property
    def order_id(self) -> str:
        return f"order-{self.number:06d}"

    @property
    def customer(self) -> str:
        if self.number % FAVOURITE_EVERY == 0:
            return "customer-000"
        return f"customer-{self.number * 7919 % CUSTOMERS:03d}"

    @property
    def is_express(self) -> bool:
        return self.number % EXPRESS_EVERY == 0

    @property
    def has_unknown_currency(self) -> bool:
        return self.number % UNKNOWN_CURRENCY_EVERY == 0

    @property
    def is_negative(self) -> bool:
        return self.number % NEGATIVE_EVERY == 0 and not self.has_unknown_currency

    @property
    def is_stuck(self) -> bool:
        """Whether billing cannot book it until somebody has repaired the bookkeeping."""
        is_wrong = self.has_unknown_currency or self.is_negative
        return self.number % STUCK_EVERY == 0 and not is_wrong

    def body(self) -> str:
        cents = 500 + self.number * 104_729 % 20_000
        return json.dumps(
            {
                "order": self.order_id,
                "customer": self.customer,
                "amount": (-cents if self.is_negative else cents) / 100,
                "currency": "EU" if self.has_unknown_currency else "EUR",
                "note": "thank you " * (self.number % 40),
            }
        )
