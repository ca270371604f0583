"""Errors: a status, a sub code, and where to look."""

import pytest
from defusedxml.ElementTree import fromstring

from partibus.atom.error_mapping import fault_document, sub_code
from partibus.control.access.sas import EXPIRED_TOKEN, TokenRefused
from partibus.control.catalog.quotas import TopicFull
from partibus.domain.errors import (
    BusError,
    EntityExists,
    EntityNotFound,
    QuotaExceeded,
    ServerBusy,
    Unauthorized,
)
from partibus.domain.refusal import PropertyImmutable, TargetNotFound


class InProgress(EntityExists):
    """Another operation is in progress."""

    retryable = True


@pytest.mark.rule("ERR-20", "SAS-11")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EntityNotFound.named("q"), 404, 40400),
        (EntityExists(), 409, 40900),
        (InProgress(), 409, 40901),
        (PropertyImmutable("x", "y"), 400, 40000),
        (TargetNotFound("forward_to", "y"), 400, 40400),
        (QuotaExceeded(), 403, 40300),
        (TopicFull("full", 40503), 403, 40503),
        (Unauthorized(), 401, 40100),
        (TokenRefused("old", EXPIRED_TOKEN), 401, 40106),
        (ServerBusy(), 503, 50300),
        (BusError(), 500, 50000),
    ],
)
def test_codes(error: BusError, status: int, code: int) -> None:
    assert (error.http_status, sub_code(error)) == (status, code)
    root = fromstring(fault_document(error))
    assert root.tag == "Error"
    assert root.findtext("Code") == str(status)
    detail = root.findtext("Detail") or ""
    assert detail.startswith(f"SubCode={code}. ")
    assert error.tracking_id in detail
