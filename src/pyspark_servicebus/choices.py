"""Which options that select messages may be combined in a read.

Owns the errors about `filter`, `sessionIds`, `entityPattern`, `pushdown`, ends and waits: each says
what to do instead. Must never read a value. Called by `options`.
"""

from pyspark_servicebus.given_options import GivenOptions


def complain_of_choice(given: GivenOptions, mode: str, is_stream: bool) -> None:
    """Report every invalid combination."""
    for name in ("filter", "sessionIds"):
        given.complain(
            mode == "claim" and given.text(name) is not None,
            f"{name}: mode=claim takes the next messages of the queue and cannot select. Make a "
            "subscription with that filter as its rule and claim from it, or use mode=cursor.",
        )
    _complain_of_pattern(given, mode, is_stream)
    pushes = (given.text("pushdown") or "").lower() == "true"
    given.complain(
        is_stream and pushes,
        "pushdown: Spark does not push conditions into streams; use the option filter.",
    )
    ends = ("endingTimestamp", "endingPositionsByFragment")
    for name in ends:
        given.complain(
            is_stream and given.text(name) is not None,
            f"{name}: a stream has no end; use spark.read to read up to a position.",
        )
    given.complain(
        all(given.text(name) is not None for name in ends), f"{', '.join(ends)}: give one of them."
    )
    for name in ("minMessagesPerTrigger", "maxTriggerDelay"):
        given.complain(
            not is_stream and given.text(name) is not None,
            f"{name}: it is for streams; a batch read takes what is there.",
        )
    given.complain(
        given.text("maxTriggerDelay") is not None and given.text("minMessagesPerTrigger") is None,
        "maxTriggerDelay: it ends the wait for minMessagesPerTrigger; give that, too.",
    )


def _complain_of_pattern(given: GivenOptions, mode: str, is_stream: bool) -> None:
    if given.text("entityPattern") is None:
        return
    given.complain(
        is_stream,
        "entityPattern: a stream reads one entity, whose positions its checkpoint keeps; start a "
        "query for each, or read them all with spark.read.",
    )
    given.complain(
        not is_stream and mode != "peek",
        f"entityPattern: many entities are read with mode=peek, not mode={mode}.",
    )
    for name in ("cursor", "fragments", "startingPositionsByFragment", "endingPositionsByFragment"):
        given.complain(
            given.text(name) is not None,
            f"{name}: it applies to a single entity, but entityPattern names many.",
        )
