"""The headers that all answers of one kind have.

Owns that nothing is cached, and that a refusal names the scheme of tokens. It must never decide
whether something is refused.
"""

from typing import Final

from partibus.domain.errors import BusError, Unauthorized

FRESH: Final = {"cache-control": "no-store"}


def refusal_headers(error: BusError) -> dict[str, str]:
    """The headers of an answer that reports this error."""
    if isinstance(error, Unauthorized):
        return FRESH | {"www-authenticate": "SharedAccessSignature"}
    return FRESH
