"""Which options each transport supports.

Owns the errors about options that only one transport has: `flight` is the bulk path of Partibus,
`amqp` is what every Service Bus supports. Each error names the option and says what to write
instead. Called only by `options`.
"""

from typing import Final

from pyspark_servicebus.given_options import GivenOptions

TRANSPORTS: Final = ("flight", "amqp")
_MODES: Final = {
    ("flight", False): ("peek", "cursor"),
    ("flight", True): ("cursor", "claim", "peek"),
    ("amqp", False): ("peek", "peeklock"),
    ("amqp", True): ("deferclaim", "peeklock"),
}
"""By transport, and whether it is a stream; the first is the default."""
_INSTEAD: Final = {
    "cursor": "a bus over AMQP keeps no position; write mode=deferclaim, or peek for a snapshot",
    "claim": "a bus over AMQP has no claims; write mode=deferclaim, with claimLocation",
    "peek": "write mode=deferclaim or peeklock; a peek is for spark.read",
    "deferclaim": "write mode=claim, which the bus itself supports; or transport=amqp",
    "peeklock": "write mode=claim, which needs no locks; or transport=amqp",
}
_FLIGHT_ALONE: Final = {
    "cursor": "a bus over AMQP keeps no position",
    "retention": "it belongs to a cursor",
    "retentionBytes": "it belongs to a cursor",
    "claimDuration": "deferred messages are held without a time limit",
    "startingPosition": "a read over AMQP reads what is there",
    "startingTimestamp": "filter by enqueued_time instead",
    "startingPositionsByFragment": "filter by sequence_number instead",
    "fragments": "filter by the column fragment instead",
}


def given_transport(given: GivenOptions) -> str:
    """The transport of a read or a write."""
    return given.one_of("transport", TRANSPORTS, "flight")


def default_mode(transport: str, is_stream: bool) -> str:
    """The default mode of a read."""
    return _MODES[transport, is_stream][0]


def check_source(given: GivenOptions, transport: str, mode: str, is_stream: bool) -> None:
    """Report options that the transport of a read does not have."""
    allowed = _MODES[transport, is_stream]
    if mode not in allowed:
        is_for_streams = mode in _MODES[transport, True]
        given.complain(
            True,
            f"mode: {mode} is for streams; write peek for a snapshot."
            if is_for_streams
            else f"mode: transport={transport} does not offer {mode}"
            f"{' to streams' if is_stream else ''}: {_INSTEAD[mode]}.",
        )
    if mode == "deferclaim":
        _check_deferclaim(given)
    else:
        given.complain(
            given.text("claimLocation") is not None,
            "claimLocation: it belongs to mode=deferclaim; leave it out.",
        )
    if transport == "amqp":
        for name, reason in _FLIGHT_ALONE.items():
            given.complain(
                given.text(name) is not None,
                f"{name}: only transport=flight has it: {reason}; leave it out.",
            )


def _check_deferclaim(given: GivenOptions) -> None:
    given.complain(
        not given.text("claimOwner"),
        "claimOwner: mode=deferclaim needs a name for this query, the same after a "
        "restart; for example the name of the job.",
    )
    given.complain(
        not given.text("claimLocation"),
        "claimLocation: mode=deferclaim needs its own directory that outlives the driver, for "
        "example one beside the checkpoint; it records there what it has deferred.",
    )


def check_sink(given: GivenOptions, transport: str, deliver: str) -> None:
    """Report options that the transport of a write does not have."""
    given.complain(
        transport == "amqp" and deliver == "staged",
        "deliver: staged needs transport=flight; over AMQP write dedup, with a queue that detects "
        "duplicates, or atLeastOnce.",
    )
