"""What looking costs: every page of the console on a large server, a scrape, and both under load.

Owns four measurements. `pages`: one queue with many messages, many entities and many connections,
and how long the JSON twin of each page takes, from the request to the last byte. `scrape`: the
processor time of one `/metrics`. `watching`: what a scrape each second and an open console take of
a core. `load`: processor time of the server for a million messages, with
nobody looking and with a scrape each second beside an open console, in turns. CPU seconds are the
numbers to trust on a busy machine. `python -m bench.observing.console`.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Final

from bench.bus import Bus
from bench.gauge import cpu_seconds
from bench.load import Client, Job, Progress, SendingClient, encode_message
from bench.peers import QUEUE
from bench.scenarios import CPU, SCENARIOS, measure
from partibus.gateway.links.inbound import BATCH_FORMAT

BATCH: Final = 4_000
"""Messages in one transfer when the queue is filled."""
TIMES: Final = 9
LIMIT_MS: Final = 200.0
DEEP: Final = "deep"
_BIG: Final = "big"

Get = Callable[[str], bytes]


def namespace(entities: int) -> str:
    """Many queues, one that is deep and one with a large body."""
    names = [QUEUE, DEEP, _BIG, *(f"queue-{number}" for number in range(entities - 3))]
    limits = 'max_size_in_megabytes = 5120\nlock_duration = "PT5M"\n'
    limits += "max_message_size_in_kilobytes = 102400\n"
    return "".join(f'[[queue]]\nname = "{name}"\n{limits}' for name in names)


def pages(deep: str) -> dict[str, str]:
    """The JSON twin of every page of the console."""
    at = f"/entities/{deep}"
    return {
        "overview: a frame of the live feed": "/live",
        "overview: stores": "/stores",
        "entities: first page": "/entities?top=100",
        "entities: by depth": "/entities?sort=active&top=100",
        "entities: searched": "/entities?filter=queue-99&top=100",
        "dead letters of all": "/entities?state=dead-letters&sort=dead_letter&top=500",
        "entity": at,
        "entity: messages": f"{at}/messages?max=50",
        "entity: messages, searched": f"{at}/messages?max=50&search=needle",
        "entity: messages, scheduled": f"{at}/messages?max=50&state=scheduled",
        "entity: dead letters by reason": f"{at}/dead-letters",
        "entity: claims": f"{at}/claims",
        "entity: cursors": f"{at}/cursors",
        "entity: stages": f"{at}/stages",
        "entity: sessions": f"{at}/sessions",
        "a message with a body of 1 MB": f"/entities/{_BIG}/messages/1",
        "connections": "/connections?limit=100",
        "connections of an entity": f"/connections?limit=100&entity={deep}",
        "pipelines": "/pipelines",
        "policies": "/policies",
        "defaults": "/defaults",
        "signals (partibus top)": "/signals",
    }


def token(bus: Bus) -> str:
    """A shared access signature for the whole namespace."""
    expiry = str(int(time.time()) + 86_400)
    audience = urllib.parse.quote_plus(f"http://127.0.0.1:{bus.port}/")
    signed = hmac.new(bus.password.encode(), f"{audience}\n{expiry}".encode(), hashlib.sha256)
    signature = urllib.parse.quote_plus(base64.b64encode(signed.digest()))
    return f"SharedAccessSignature sr={audience}&sig={signature}&se={expiry}&skn={bus.user}"


def getter(bus: Bus) -> Get:
    """GET by path, each on a connection of its own, as a browser's first one."""
    headers = {"authorization": token(bus)}

    def get(path: str) -> bytes:
        with closing(http.client.HTTPConnection("127.0.0.1", bus.port, timeout=60)) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            if "event-stream" in answer.headers.get("content-type", ""):
                found = b""
                while not found.endswith(b"\n\n"):
                    found += answer.readline()
                return found
            found = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {found[:300]!r}")
            return found

    return get


class FillingClient(SendingClient):
    """Sends batches, so that a million messages are soon there."""

    def __init__(self, job: Job, number: int, progress: Progress, batch: int) -> None:
        super().__init__(job, number, progress)
        message = encode_message(job.size)
        data = b"\x00\x53\x75\xb0" + len(message).to_bytes(4, "big") + message
        self.payload = data * batch
        self.message_format = BATCH_FORMAT


def job_for(bus: Bus, address: str, count: int, size: int) -> Job:
    return Job(
        port=bus.port,
        user=bus.user,
        password=bus.password,
        address=address,
        sends=True,
        count=count,
        size=size,
        window=4,
        connections=1,
        settles_second=True,
    )


def fill(bus: Bus, address: str, count: int, size: int, batch: int) -> None:
    """Put messages into a queue."""
    progress = Progress(-(-count // batch))
    client = FillingClient(job_for(bus, address, count, size), 0, progress, batch)
    while progress.to_finish:
        if client.is_ready:
            client.pump()
        client.flush()
        client.read()
    client.close()


@contextmanager
def connected(bus: Bus, count: int) -> Iterator[None]:
    """So many clients that have attached a link and do nothing."""
    clients: list[Client] = []
    try:
        for number in range(count):
            job = job_for(bus, DEEP if number % 2 else QUEUE, 0, 0)
            client = Client(job, number, Progress(0))
            clients.append(client)
            while not client.is_attached:
                client.read()
                client.flush()
        yield
    finally:
        for client in clients:
            client.socket.close()


def measure_pages(directory: Path, messages: int, connections: int, entities: int) -> bool:
    """Print a table; True when every page was in time."""
    bus = Bus(directory, namespace(entities))
    bus.start()
    try:
        print(f"{bus.version}: {messages:,} messages, {connections:,} connections,", end=" ")
        print(f"{entities:,} entities", flush=True)
        fill(bus, DEEP, messages, 32, min(BATCH, messages))
        fill(bus, _BIG, 1, 1_000_000, 1)
        with connected(bus, connections):
            get = getter(bus)
            in_time = [_page(get, name, path) for name, path in pages(DEEP).items()]
            return all(in_time)
    finally:
        bus.stop()


def _page(get: Get, name: str, path: str) -> bool:
    times, size = [], 0
    for _ in range(TIMES):
        begun = time.perf_counter()
        size = len(get("/$partibus" + path))
        times.append((time.perf_counter() - begun) * 1000)
    is_in_time = median(times) < LIMIT_MS
    print(f"{name:<38}{median(times):8.1f} ms {max(times):8.1f} at most {size:10,} bytes", end="")
    print("" if is_in_time else "   TOO SLOW", flush=True)
    return is_in_time


def measure_scrape(directory: Path, entities: int, times: int) -> None:
    """Print the processor time of a scrape."""
    bus = Bus(directory, namespace(entities))
    bus.start()
    try:
        get = getter(bus)
        size = len(get("/metrics"))
        idle = cpu_seconds(bus.pid)
        begun = time.perf_counter()
        for _ in range(times):
            get("/metrics")
        used = cpu_seconds(bus.pid) - idle
        took = time.perf_counter() - begun
    finally:
        bus.stop()
    print(f"a scrape of {entities:,} entities, {size:,} bytes, {bus.version}:", end=" ")
    print(f"{used / times * 1000:.1f} ms of CPU, {took / times * 1000:.1f} ms (mean of {times})")


@contextmanager
def watched(bus: Bus) -> Iterator[None]:
    """A scrape each second, and a console that is open."""
    get, stopping = getter(bus), threading.Event()

    def scrape() -> None:
        while not stopping.wait(1.0):
            get("/metrics")

    def look() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", bus.port, timeout=60)) as connection:
            connection.request("GET", "/$partibus/live", headers={"authorization": token(bus)})
            answer = connection.getresponse()
            while not stopping.is_set() and answer.readline():
                pass

    threads = [threading.Thread(target=work) for work in (scrape, look)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def measure_watching(directory: Path, entities: int, seconds: int) -> None:
    """Print what a scrape each second and an open console take of a core, on a server at rest.

    Load makes the same work no dearer, and here nothing else moves the number."""
    bus = Bus(directory, namespace(entities))
    bus.start()
    used: dict[str, float] = {}
    try:
        getter(bus)("/metrics")
        for name, watch in (("alone", nullcontext()), ("watched", watched(bus))):
            with watch:
                begun = cpu_seconds(bus.pid)
                time.sleep(seconds)
                used[name] = (cpu_seconds(bus.pid) - begun) / seconds
    finally:
        bus.stop()
    more = (used["watched"] - used["alone"]) * 100
    print(f"watched, {entities:,} entities, {bus.version}: {more:.2f}% of a core", end=" ")
    print(f"(at rest {used['alone'] * 100:.2f}%, over {seconds} s each)")


def measure_load(directory: Path, messages: int, repeats: int, entities: int) -> None:
    """Print what a million messages cost the server, alone and looked at, in turns."""
    bus = Bus(directory, namespace(entities))
    bus.start()
    scenario = next(one for one in SCENARIOS if one.name == "both 1 KB")
    found: dict[str, list[float]] = {"alone": [], "watched": []}
    try:
        measure(scenario, bus, messages // 10)
        for _ in range(repeats):
            found["alone"].append(measure(scenario, bus, messages)[CPU])
            with watched(bus):
                found["watched"].append(measure(scenario, bus, messages)[CPU])
    finally:
        bus.stop()
    print(
        f"{scenario.name}, {bus.version}, {entities:,} entities, CPU seconds per million messages:"
    )
    for name, numbers in found.items():
        shown = ", ".join(f"{number:.2f}" for number in numbers)
        print(f"  {name:<8}{median(numbers):7.2f}   ({shown})")
    print(f"  more: {(median(found['watched']) / median(found['alone']) - 1) * 100:+.1f}%")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.observing.console", description=__doc__)
    parser.add_argument("what", nargs="*", default=["pages", "scrape", "watching", "load"])
    parser.add_argument("--messages", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--connections", type=int, default=5_000, metavar="N")
    parser.add_argument("--entities", type=int, default=1_000, metavar="N")
    parser.add_argument("--load", type=int, default=200_000, metavar="N", help="messages")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--directory", type=Path, default=Path("build"))
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        for what in options.what:
            place = Path(root, what)
            if what == "pages":
                measure_pages(place, options.messages, options.connections, options.entities)
            elif what == "watching":
                measure_watching(place, options.entities, 20)
            elif what == "scrape":
                measure_scrape(place, options.entities, 50)
            else:
                measure_load(place, options.load, options.repeats, options.entities)


if __name__ == "__main__":
    main()
