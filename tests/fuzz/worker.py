"""One target under Atheris: this process never returns, it ends with its last input.

Started by `fuzz.__main__` for each target in turn, with the arguments of libFuzzer. What an input
does wrong is printed with its traceback, and the input is written to a file.
"""

import logging
import sys


def main() -> None:
    """The name of the target, then libFuzzer's arguments."""
    from fuzz.interpreted import prefer_sources

    prefer_sources()
    import atheris

    with atheris.instrument_imports(include=["partibus"], enable_loader_override=False):
        from fuzz.registry import TARGETS

    logging.disable(logging.CRITICAL)
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.run)
    atheris.Fuzz()


main()
