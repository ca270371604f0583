"""Errors of a store in words for clients."""

from pathlib import Path

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.server.store_error_texts import texts_for_clients


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The store {place} is closed.", "Store 3 is closed."),
        ("{place}/000.log: offset 12: bad.", "store 3: 000.log: offset 12: bad."),
        ("{place}/000.log cannot be read: '{place}/000.log'.", "store 3: 000.log cannot be read:"),
        ("No space on {place}", "No space on store 3"),
        ("The store of this fragment is down.", "The store of this fragment is down."),
    ],
)
def test_places_become_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (Path("data/store-3"), tmp_path / "data" / "store-3"):
        hide_place = texts_for_clients(3, place)
        error: BusError = StoreCorrupt(text.format(place=place))
        tracking_id = error.tracking_id
        hide_place(error)
        assert error.text.startswith(told)
        assert str(place) not in error.description
        assert (str(error), error.tracking_id) == (error.text, tracking_id)


def test_a_path_that_the_system_names_in_full_is_hidden_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = StoreUnavailable(f"[Errno 28] No space left on device: '{tmp_path}/data/0/x.log'")
    texts_for_clients(0, Path("data/0"))(error)
    assert str(tmp_path) not in error.description
