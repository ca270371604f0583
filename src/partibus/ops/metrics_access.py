"""Who may read the metrics, in the words of the setting `metrics`.

Owns the words alone, so that the settings need not load what serves HTTP.
"""

from typing import Final

LOOPBACK: Final = "loopback"
"""Programs of this machine as they are, others with a token."""
TOKEN: Final = "token"  # noqa: S105 - the word itself
OPEN: Final = "open"
OFF: Final = "off"
ACCESS: Final = (LOOPBACK, TOKEN, OPEN, OFF)
