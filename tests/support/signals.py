"""Signals for processes that tests start.

A runner of tests may ignore SIGINT, as a shell does for what runs in its background, and a child
would inherit that. `mind_interrupts` is given to `subprocess.Popen` as its `preexec_fn`.
"""

import signal


def mind_interrupts() -> None:
    """Let Ctrl-C mean what it means to a person's process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
