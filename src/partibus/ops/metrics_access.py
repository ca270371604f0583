"""Who may read the metrics: the values of the setting `metrics`.

Owns only these words, so that the settings need not load the HTTP stack.
"""

from typing import Final

LOOPBACK: Final = "loopback"
"""Programs of this machine without a token, others with one."""
TOKEN: Final = "token"  # noqa: S105 - the word itself
OPEN: Final = "open"
OFF: Final = "off"
ACCESS: Final = (LOOPBACK, TOKEN, OPEN, OFF)
