"""What those who look take of a server at full load, counted by the server itself.

Owns one measurement: while clients send and receive without end, Prometheus scrapes each second and
a console is open on every page, each in a tab of its own. The server counts the processor time
of such requests (`partibus_observing_cpu_seconds_total`) beside all that it uses, so that no two
noisy totals have to be compared; what others do on the machine is not in either. What the loop and
the sockets add is not in the counter: how much that is, a server at rest shows, where the observers
are all that it has to do, and the numbers are raised by it. A number is the
median over windows, with the interval that holds it in 95 of 100 samples drawn again. Of a core: a
server at full load has at least one, so this is what messages lose.
`python -m bench.observing`.
"""

import argparse
import http.client
import random
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.bus import Bus
from bench.gauge import cpu_seconds
from bench.observing.console import namespace, token
from bench.peers import QUEUE
from bench.scenarios import RATE, SCENARIOS, measure

LIMIT_PERCENT: Final = 1.0
RESAMPLES: Final = 2_000
WARM_UP_S: Final = 5.0
"""What is loaded when it is first asked for is not what looking costs."""
STREAMS: Final = (
    "/$partibus/live",  # overview
    "/$partibus/live",  # entities
    "/$partibus/live",  # dead letters
    "/$partibus/live",  # connections
    "/$partibus/live",  # events
    "/$partibus/events?last=200",
    "/$partibus/live",  # pipelines
    "/$partibus/live",  # faults
    f"/$partibus/live?entity={QUEUE}",  # an entity, with its charts and fragments
)
"""What the tabs hold open."""
POLLED: Final = (
    ("/$partibus/entities?top=100", 5.0),
    ("/$partibus/entities?state=dead-letters&sort=dead_letter&top=500", 5.0),
    ("/$partibus/connections?limit=100", 2.0),
    ("/$partibus/pipelines", 3.0),
    (f"/$partibus/entities/{QUEUE}/claims", 2.0),
)
"""What the tabs ask for again and again: path, and every so many seconds."""


class Reading(NamedTuple):
    """The counters of the server at a moment."""

    at_s: float
    observing_s: float
    cpu_s: float


class Window(NamedTuple):
    """What the observers took in a while, in percent."""

    of_a_core: float
    of_the_server: float


class Watch:
    """Prometheus and the tabs."""

    def __init__(self, bus: Bus, one_page: bool) -> None:
        self._streams = STREAMS[:1] if one_page else STREAMS
        self._polled = () if one_page else POLLED
        self._port = bus.port
        self._headers = {"authorization": token(bus)}
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self.readings: list[Reading] = []
        self.frames = 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Look, until the end of the block."""
        tabs = [threading.Thread(target=self._stream, args=(path,)) for path in self._streams]
        tabs += [threading.Thread(target=self._poll, args=asked) for asked in self._polled]
        threads = [threading.Thread(target=self._scrape), *tabs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _scrape(self) -> None:
        with closing(self._connect()) as connection:
            for _ in self._ticks(1.0):
                text = self._get(connection, "/metrics").decode()
                used = (_value(text, name) for name in ("observing", "worker"))
                self.readings.append(Reading(time.monotonic(), *used))

    def _poll(self, path: str, every_s: float) -> None:
        with closing(self._connect()) as connection:
            for _ in self._ticks(every_s):
                self._get(connection, path)

    def _stream(self, path: str) -> None:
        with closing(self._connect()) as connection:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            while not self._stopping.is_set():
                if answer.readline().startswith(b"event: frame"):
                    with self._turn:
                        self.frames += 1

    def _ticks(self, every_s: float) -> Iterator[None]:
        """At fixed times, however long an answer took."""
        due_s = time.monotonic()
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            yield
            due_s += every_s

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)

    def _get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        connection.request("GET", path, headers=self._headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")
        return body


def _value(text: str, name: str) -> float:
    found = re.search(rf'^partibus_{name}_cpu_seconds_total{{worker="0"}} (.*)$', text, re.M)
    assert found is not None
    return float(found[1])


def windows(readings: Sequence[Reading], seconds: float) -> list[Window]:
    """The readings cut into windows of at least so many seconds. On a machine that is too busy for
    a scrape each second a window counts as many seconds as it has scrapes."""
    found: list[Window] = []
    begun, first = 0, readings[0]
    for at, last in enumerate(readings):
        if last.at_s - first.at_s >= seconds:
            observing_s = last.observing_s - first.observing_s
            of_a_core = observing_s / (at - begun)  # a scrape is due each second
            of_the_server = observing_s / (last.cpu_s - first.cpu_s)
            found.append(Window(of_a_core * 100, of_the_server * 100))
            begun, first = at, last
    return found


def interval(numbers: Sequence[float]) -> tuple[float, float]:
    """Where the median lies in 95 of 100 samples drawn again from the numbers."""
    draw = random.Random(1)
    medians = sorted(median(draw.choices(numbers, k=len(numbers))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def uncounted(bus: Bus, seconds: float, one_page: bool) -> float:
    """How much more the process uses than is counted, on a server at rest."""
    idle_s = cpu_seconds(bus.pid)
    time.sleep(seconds)
    idle_s = cpu_seconds(bus.pid) - idle_s
    watch = Watch(bus, one_page)
    with watch.going_on():
        time.sleep(WARM_UP_S)
        watch.readings.clear()
        time.sleep(seconds)
    first, last = watch.readings[0], watch.readings[-1]
    at_rest_s = idle_s * (last.at_s - first.at_s) / seconds
    used_s = last.cpu_s - first.cpu_s - at_rest_s
    return max(1.0, used_s / (last.observing_s - first.observing_s))


def measure_observing(
    directory: Path, entities: int, count: int, seconds: float, one_page: bool
) -> bool:
    """Print the numbers; True when the interval is below the limit."""
    bus = Bus(directory, namespace(entities))
    bus.start()
    scenario = next(one for one in SCENARIOS if one.name == "both 1 KB")
    is_over = threading.Event()
    rates: list[float] = []

    def load() -> None:
        while not is_over.is_set():
            rates.append(measure(scenario, bus, 20_000)[RATE])

    loading = threading.Thread(target=load)
    try:
        factor = uncounted(bus, 2 * seconds, one_page)
        watch = Watch(bus, one_page)
        loading.start()
        with watch.going_on():
            time.sleep(WARM_UP_S)
            watch.readings.clear()
            time.sleep(seconds * (count + 0.5))
        is_over.set()
        loading.join()
    finally:
        bus.stop()
    found = [
        Window(*(factor * number for number in window))
        for window in windows(watch.readings, seconds)
    ]
    pages = "one page" if one_page else "every page"
    print(
        f"{entities:,} entities, {pages}, {bus.version}, {len(found)} windows of {seconds:g} s,",
        end=" ",
    )
    print(f"{watch.frames:,} frames, {len(watch.readings):,} scrapes,", end=" ")
    print(f"raised by {(factor - 1) * 100:.0f}%:")
    of_a_core = _print("of a core", [window.of_a_core for window in found])
    _print("of what the server used", [window.of_the_server for window in found])
    print(f"  {'messages a second meanwhile':<28}{median(rates):9,.0f}")
    return of_a_core < LIMIT_PERCENT


def _print(name: str, numbers: list[float]) -> float:
    low, high = interval(numbers)
    print(f"  {name:<28}{median(numbers):8.3f}%   (95%: {low:.3f} to {high:.3f})", flush=True)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.observing", description=__doc__)
    parser.add_argument("--entities", type=int, nargs="*", default=[10, 1_000], metavar="N")
    parser.add_argument("--windows", type=int, default=12, metavar="N")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each window")
    parser.add_argument(
        "--one-page", action="store_true", help="the overview alone is in sight, not every page"
    )
    parser.add_argument("--directory", type=Path, default=Path("build"))
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        cheap = [
            measure_observing(
                Path(root, str(count)), count, options.windows, options.seconds, options.one_page
            )
            for count in options.entities
        ]
    raise SystemExit(0 if all(cheap) else 1)


if __name__ == "__main__":
    main()
