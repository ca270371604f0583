"""Every input that is kept, and every input that once failed, goes through its target again.

Needs no fuzzer, so it runs wherever the tests do; steps and memory are bounded as they are when
new inputs are looked for.
"""

import pytest

from fuzz import corpus
from fuzz.reducing import reduced, worth_keeping
from fuzz.registry import TARGETS
from fuzz.target import INPUT_BYTES_MAX, STEPS_MAX, Hang, Target, TooMuchMemory, run_bounded
from partibus.domain.address import parse_address


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    seeds = TARGETS[name].seeds()
    assert seeds
    for data in seeds:
        assert len(data) <= INPUT_BYTES_MAX
        run_bounded(TARGETS[name], data)


@pytest.mark.parametrize("name", TARGETS)
def test_corpus(name: str) -> None:
    for data in corpus.kept(name):
        run_bounded(TARGETS[name], data)


@pytest.mark.parametrize("name", TARGETS)
def test_past_crashes(name: str) -> None:
    for data in corpus.crashes(name):
        run_bounded(TARGETS[name], data)


def test_every_file_belongs_to_a_target() -> None:
    files = [*corpus.CORPUS.glob("*"), *corpus.CRASHES.glob("*")]
    assert {path.stem for path in files} <= set(TARGETS)


# --- the judge itself ---------------------------------------------------------------------------


def _target(execute: object) -> Target:
    return Target(
        name="sample",
        takes="anything",
        execute=execute,  # type: ignore[arg-type]
        answers=(KeyError,),
        seeds=lambda: [b""],
    )


def test_a_documented_error_is_an_answer_and_any_other_a_crash() -> None:
    run_bounded(_target(lambda _: {}["missing"]), b"")
    with pytest.raises(ZeroDivisionError):
        run_bounded(_target(lambda _: 1 // 0), b"")


def test_a_hang_is_found() -> None:
    def forever(_data: bytes) -> None:
        count = 0
        while True:
            try:
                count += 1
            except Exception:
                raise AssertionError(f"a handler took it after {STEPS_MAX}") from None

    with pytest.raises(Hang):
        run_bounded(_target(forever), b"")


def test_a_failing_input_is_reduced_to_what_fails() -> None:
    def breaks(data: bytes) -> None:
        if b"x" in data:
            raise ZeroDivisionError

    assert reduced(_target(breaks), b"much before x and behind") == b"x"
    assert reduced(_target(breaks), b"does not fail") == b"does not fail"


def test_only_inputs_that_reach_something_new_are_kept() -> None:
    def parsed(data: bytes) -> None:
        parse_address(data.decode())

    queue, again, management = b"q", b"another", b"q/$management"
    assert worth_keeping(_target(parsed), [management, again, queue]) == [queue, management]


def test_too_much_memory_is_found() -> None:
    with pytest.raises(TooMuchMemory):
        run_bounded(_target(lambda _: bytes(1 << 27)), b"")
