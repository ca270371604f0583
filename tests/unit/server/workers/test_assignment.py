"""What a worker is told arrives as it was meant."""

from dataclasses import replace
from pathlib import Path

import pytest

from partibus.cluster.membership import Membership
from partibus.domain.limits import STANDARD
from partibus.server.config import ServeSettings
from partibus.server.workers.assignment import Assignment, decode_assignment, encode_assignment

MEMBERSHIP = Membership(
    worker=1,
    workers=3,
    group_id=0xFFFF_FFFF,
    runtime=Path("/run/partibus"),
    catalog=Path("/data/catalog.db"),
    tls=Path("/data/tls"),
)


@pytest.mark.parametrize(
    "settings",
    [
        ServeSettings(),
        ServeSettings(
            data=Path("/data"),
            memory=True,
            config=Path("ns.toml"),
            port=None,
            stores=2,
            store_places=("/one", "/two"),
            workers=3,
            profile=STANDARD,
            faults=True,
        ),
    ],
)
def test_an_assignment_is_one_line_and_comes_out_as_it_went_in(settings: ServeSettings) -> None:
    assignment = Assignment(settings=settings, membership=MEMBERSHIP)
    line = encode_assignment(assignment)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert decode_assignment(line) == assignment


def test_each_store_has_one_owner() -> None:
    workers = [replace(MEMBERSHIP, worker=number) for number in range(3)]
    for store in range(8):
        assert [m.worker for m in workers if m.owns(store)] == [store % 3]
    assert MEMBERSHIP.others == [0, 2]
