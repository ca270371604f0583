"""The entities that match a pattern.

Owns the option `entityPattern`: globs over the paths of queues and subscriptions, in any case, as
the management API lists them. Called once for each read, on the driver.
"""

import fnmatch
from collections.abc import Iterator
from typing import Final

from partibus.client.atom import AtomClient
from partibus.client.errors import AtomError
from partibus.domain import conditions
from partibus.domain.address import subscription_path
from pyspark_servicebus.errors import Backoff, BulkError
from pyspark_servicebus.options import SourceOptions

_SUBSCRIPTIONS: Final = "/subscriptions/"
_UNAUTHORIZED: Final = 401


def matching_entities(options: SourceOptions) -> list[str]:
    """The paths that match a pattern, in order; waits for an unreachable bus."""
    backoff = Backoff(options.retry_s)
    while True:
        try:
            found = sorted(set(_matching(options)), key=str.lower)
            break
        except (OSError, AtomError) as error:
            backoff.wait_or_raise(_bus_error(error))
    if not found:
        raise BulkError(
            conditions.NOT_FOUND,
            f"entityPattern: no queue and no subscription matches '{','.join(options.patterns)}'. "
            "A subscription's path is TOPIC/Subscriptions/NAME.",
            False,
        )
    return found


def matches(patterns: tuple[str, ...], path: str) -> bool:
    """Whether a path matches one of the patterns."""
    lowered = path.lower()
    return any(fnmatch.fnmatchcase(lowered, pattern.lower()) for pattern in patterns)


def _matching(options: SourceOptions) -> Iterator[str]:
    credentials, patterns = options.credentials, options.patterns
    with AtomClient(credentials.place(), ca_file=credentials.ca_file) as client:
        for queue in client.list("queue"):
            if matches(patterns, queue["name"]):
                yield queue["name"]
        if not any(_may_be_subscription(pattern) for pattern in patterns):
            return
        for topic in client.list("topic"):
            for subscription in client.list("subscription", topic["name"]):
                path = subscription_path(topic["name"], subscription["name"])
                if matches(patterns, path):
                    yield path


def _may_be_subscription(pattern: str) -> bool:
    return _SUBSCRIPTIONS in pattern.lower() or any(mark in pattern for mark in "*?[")


def _bus_error(error: OSError | AtomError) -> BulkError:
    if isinstance(error, OSError):
        return BulkError(
            conditions.PARTIBUS_UNREACHABLE, f"The bus cannot be reached: {error}.", True
        )
    text = f"entityPattern: the bus does not list its entities: {error}"
    if error.status == _UNAUTHORIZED:
        text += "; the policy of the connection string needs the Manage right"
    return BulkError(conditions.UNAUTHORIZED_ACCESS, text, error.status >= 500)
