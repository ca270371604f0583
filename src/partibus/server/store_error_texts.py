"""Store errors for clients: they name the number of the store, never a path.

Owns that one translation, between a store and its fragments: the broker passes every error of its
store through here, once, after it was logged unchanged. The log, the start of the server and its
exit name files and directories; clients get numbers.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from partibus.domain.errors import BusError


def texts_for_clients(number: int, place: Path | str) -> Callable[[BusError], None]:
    """What translates the errors of a store in a directory, or in a lane of that name."""
    # The longer one first: a relative path may be the end of the resolved one.
    resolved = str(place.resolve()) if isinstance(place, Path) else place
    places = sorted({str(place), resolved}, key=len, reverse=True)
    return partial(_hide_place, f"store {number}", places)


def _hide_place(name: str, places: list[str], error: BusError) -> None:
    text = error.text
    for place in places:
        text = text.replace(f"The store {place}", name.capitalize())
        text = text.replace(f"The {place}", name.capitalize())
        text = text.replace(f"{place}/", f"{name}: ").replace(place, name)
    error.text = text
    error.args = (text,)
