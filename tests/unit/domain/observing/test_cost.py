"""What is counted as the cost of looking: the steps of the work, each once, and nothing between."""

import asyncio

import pytest

from partibus.domain.observing.cost import CostMeter, observing


class Processor:
    """The time of a thread, which advances when it works."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def work(self, seconds: float) -> None:
        self.now_s += seconds

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def processor() -> Processor:
    return Processor()


@pytest.fixture
def meter(processor: Processor) -> CostMeter:
    return CostMeter(processor)


def test_work_within_work_counts_once(meter: CostMeter, processor: Processor) -> None:
    def inner() -> str:
        processor.work(2)
        return "answer"

    def outer() -> str:
        processor.work(1)
        return meter.around(inner)

    assert meter.around(outer) == "answer"
    assert meter.seconds == 3


def test_work_that_fails_counts_too(meter: CostMeter, processor: Processor) -> None:
    def failing() -> None:
        processor.work(1)
        raise ValueError

    for expected in (1, 2):
        with pytest.raises(ValueError):
            meter.around(failing)
        assert meter.seconds == expected


async def test_what_others_do_meanwhile_does_not_count(
    meter: CostMeter, processor: Processor
) -> None:
    came = asyncio.Event()

    async def look() -> str:
        processor.work(1)
        await came.wait()
        processor.work(2)
        return "seen"

    async def other() -> None:
        processor.work(50)
        came.set()

    seen, _ = await asyncio.gather(observing(look(), meter), other())
    assert seen == "seen"
    assert meter.seconds == 3


async def test_a_cancellation_reaches_the_work(meter: CostMeter, processor: Processor) -> None:
    ended: list[str] = []

    async def look() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            processor.work(1)
            ended.append("tidied up")
            raise

    async def run() -> None:
        await observing(look(), meter)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (ended, meter.seconds) == (["tidied up"], 1)


async def test_an_error_of_what_is_waited_for_reaches_the_work(meter: CostMeter) -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def look() -> str:
        try:
            await failing
        except OSError:
            return "told"
        return "nothing"

    asyncio.get_running_loop().call_soon(failing.set_exception, OSError())
    assert await observing(look(), meter) == "told"
