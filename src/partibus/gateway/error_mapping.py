"""Errors of the bus as AMQP errors.

Owns the one translation from our taxonomy to an AMQP error. Every text that leaves here
carries its tracking id (ERR-22).
"""

from partibus.amqp.delivery import rejected
from partibus.amqp.errors import AmqpError
from partibus.domain.errors import BusError
from partibus.domain.observing.error_counts import note_error


def amqp_error(error: BusError, host: str = "") -> AmqpError:
    """The AMQP error of a refused attach, a detach or a close, for a client of that host."""
    note_error(error)
    return AmqpError(error.condition, error.description_at(host))


def rejection(error: BusError) -> bytes:
    """The encoded outcome of a refused transfer or settlement."""
    return rejected(amqp_error(error))
