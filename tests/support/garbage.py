"""The garbage of a test, collected when it ends.

Owns how: what is alive then is never looked at again. A collection visits everything that lives,
which after some thousand tests took longer than the tests themselves.
"""

import gc


def collect_garbage() -> None:
    """Find what nothing refers to any more, among all that was made since the last call."""
    gc.collect()
    gc.freeze()
