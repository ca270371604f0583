"""Requests of the bulk path that cannot be read."""

import pytest

from partibus.bulk.requests import Ticket, read_put, read_request
from partibus.domain.errors import ArgumentError


@pytest.mark.parametrize("raw", [b"", b"{", b'{"\xf9": 1}', b'{"entity": 5}', b"[" * 5000])
def test_what_is_wrong_is_an_argument_error(raw: bytes) -> None:
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_request(raw, Ticket)
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_put(raw)
