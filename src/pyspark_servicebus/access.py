"""How a Spark process reaches the bus: an address, and a token for one path.

Owns tokens and their renewal. On the driver they are signed with the key of the connection string;
an executor gets the token and, when the connection string was given by reference, the reference,
which it reads when the token expires. The key itself must never be sent or shown. Made by the
readers and writers, used by everything that opens a connection.
"""

import dataclasses
import time
from typing import Any, Final

from partibus.client.cbs import sas_token
from partibus.client.connection_string import ConnectionString
from pyspark_servicebus.credentials import Credentials

TOKEN_SECONDS: Final = 8 * 3600
"""The lifetime of a token; it is renewed at half of that, where the key is known."""


class Access:
    """An address and a token for a path of the namespace; the empty path is the whole namespace."""

    def __init__(self, credentials: Credentials, path: str, retry_s: float) -> None:
        place = credentials.place()
        self.path = path
        self.host = place.host
        self.http_url = place.http_url
        self.where = dataclasses.replace(place, policy="", key="", token=None)
        """Only the address, for connections over AMQP."""
        self.ca = credentials.ca()
        self.retry_s = retry_s
        """How long to wait for a bus that is unreachable or busy."""
        self._reference = credentials.reference
        self._place: ConnectionString | None = place
        self._token = ""
        self._renew_at = 0.0
        self.token()

    def token(self) -> str:
        """A token that is still valid; on an executor without a reference, the one it has."""
        if time.time() < self._renew_at:
            return self._token
        place = self._place
        if place is None and self._reference is not None:
            place = Credentials(self._reference).place()
        if place is not None and place.token is not None:
            self._token, self._renew_at = place.token, time.time() + TOKEN_SECONDS / 2
        elif place is not None:
            self._sign(place)
        return self._token

    def _sign(self, place: ConnectionString) -> None:
        now = time.time()
        audience = place.audience(self.path)
        self._token = sas_token(audience, place.policy, place.key, int(now) + TOKEN_SECONDS)
        self._renew_at = now + TOKEN_SECONDS / 2

    def __getstate__(self) -> dict[str, Any]:
        self.token()
        return {**self.__dict__, "_place": None}

    def __repr__(self) -> str:
        return f"Access({self.http_url}, {self.path!r})"
