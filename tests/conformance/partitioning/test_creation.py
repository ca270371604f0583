"""What is decided when a queue is created: partitions, their stores, sizes and quotas."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError
from proton import Message

from conformance.partitioning.namespace import PARTITIONS, STORES, Queues
from conformance.partitioning.operator import Operator, command
from conformance.partitioning.partitions import key_of_each, partition_of
from conformance.partitioning.wire import Wire, keyed, number_of
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import write_queues
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

MEGABYTE = 1024 * 1024
EXIT_USAGE = 2
PARTITIONED = {"enable_partitioning": "true"}
WHOLE: dict[str, str] = {}

Queues_ = Mapping[str, Mapping[str, str]]


class Site:
    """A data directory on which servers with different configurations are started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._config = directory / "namespace.toml"

    def serve(self, queues: Queues_, *flags: str) -> ServerProcess:
        """A server, not started yet."""
        return ServerProcess(self._directory, write_queues(self._config, queues), *flags)

    def refusal(self, queues: Queues_, *flags: str) -> str:
        """What `serve` says when it does not start."""
        write_queues(self._config, queues)
        data = ("--data", str(self._directory / "data"), "--config", str(self._config))
        ports = ("--port", "0", "--tls-port", "none", "--http-port", "none")
        done = command("serve", *data, *ports, *flags)
        assert done.returncode == EXIT_USAGE, done
        assert "PARTIBUS READY" not in done.stdout
        return done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    return Site(tmp_path)


def checked(site_path: Path, queues: Queues_, profile: str) -> tuple[bool, str]:
    """Whether a profile accepts the queues, and what it says."""
    done = command("config", "check", str(write_queues(site_path, queues)), "--profile", profile)
    return done.returncode == 0, done.stdout + done.stderr


# --- the number of partitions ---------------------------------------------------------------


@pytest.mark.rule("SEED-2", "SEED-19", "CON-3", "CON-4", "SEED-17")
def test_partitioning_is_asked_for_and_makes_sixteen_partitions(
    server: ServerProcess, queues: Queues
) -> None:
    operator = Operator(server)
    for kind, partitions in PARTITIONS.items():
        assert operator.entity(queues.fresh(kind))["fragment_count"] == partitions


@pytest.mark.rule("SEED-16", "SEED-17", "PRP-2")
def test_what_was_created_stays_as_it_was_created(site: Site) -> None:
    created = {"other": WHOLE, "whole": WHOLE, "parted": PARTITIONED}
    with site.serve(created) as server, Wire(server) as wire:
        wire.send("whole", "message")
        wire.send("parted", "message")
    for queue, changed, named in (
        ("whole", PARTITIONED, "enable_partitioning: it is false and cannot become true"),
        ("parted", WHOLE, "enable_partitioning: it is true and cannot become false"),
        (
            "parted",
            PARTITIONED | {"partition_count": "4"},
            "partition_count: it is 16 and cannot become 4",
        ),
    ):
        text = site.refusal({"other": WHOLE, queue: changed})
        assert f"queue[1].{named}" in text
        assert "namespace.toml:" in text
    # The refusals have changed nothing.
    with site.serve(created) as server, Wire(server) as wire:
        assert [item.body for item in wire.peek("whole")] == ["message"]
        assert [item.body for item in wire.peek("parted")] == ["message"]


@pytest.mark.rule("SEED-23", "CON-2", "SEED-19")
def test_basic_and_standard_have_sixteen_partitions_by_choice(
    site: Site, tier: ServerProcess, tmp_path: Path
) -> None:
    with site.serve({"p": PARTITIONED, "w": WHOLE}, "--profile", "basic") as server:
        operator = Operator(server)
        assert operator.entity("p")["fragment_count"] == 16
        assert operator.entity("w")["fragment_count"] == 1
    operator = Operator(tier)
    assert operator.entity("tier-0")["fragment_count"] == 16
    assert operator.entity("tier-whole")["fragment_count"] == 1
    eight = {"q": PARTITIONED | {"partition_count": "8"}}
    for profile in ("basic", "standard"):
        accepted, text = checked(tmp_path / "eight.toml", eight, profile)
        assert not accepted
        assert f"the {profile} profile always has 16" in text


@pytest.mark.rule("SEED-21", "CON-1")
def test_premium_of_2017_has_two_partitions_without_being_asked(site: Site) -> None:
    with site.serve({"p": PARTITIONED, "w": WHOLE}, "--profile", "premium-2017") as server:
        operator = Operator(server)
        assert operator.entity("p")["fragment_count"] == 2
        assert operator.entity("w")["fragment_count"] == 2
        assert operator.entity("w")["properties"]["enable_partitioning"] is True
        with Wire(server) as wire:
            wire.send("w", "one", "two")
            assert sorted(wire.partitions("w")) == [0, 1]


@pytest.mark.rule("SEED-22", "CON-1")
def test_premium_of_2020_ignores_the_wish_and_keeps_what_exists(site: Site) -> None:
    with site.serve({"old": PARTITIONED}, "--profile", "standard") as server, Wire(server) as wire:
        wire.send("old", "before")
    queues = {"old": PARTITIONED, "new": PARTITIONED}
    with site.serve(queues, "--profile", "premium-2020") as server, Wire(server) as wire:
        operator = Operator(server)
        assert operator.entity("new")["fragment_count"] == 1
        assert operator.entity("new")["properties"]["enable_partitioning"] is False
        assert operator.entity("old")["fragment_count"] == 16
        wire.send("old", *range(16))
        assert len(wire.take("old", 17)) == 17
        assert operator.entity("old")["totals"]["active"] == 0


@pytest.mark.rule("CON-1")
def test_where_partitions_are_no_property_of_a_queue_they_are_refused(site: Site) -> None:
    for profile in ("emulator", "premium"):
        text = site.refusal({"p": PARTITIONED}, "--profile", profile)
        assert f"enable_partitioning: the {profile} profile has no partitioned entities" in text


# --- placement ------------------------------------------------------------------------------


@pytest.mark.rule("SEED-1", "SEED-3", "SEED-6", "CNT-4")
def test_partitions_are_spread_evenly_over_the_stores(
    server: ServerProcess, queues: Queues
) -> None:
    operator = Operator(server)
    for kind, share in (("spread", 4), ("four", 1)):
        placement = operator.placement(queues.fresh(kind))
        assert sorted(placement) == sorted(list(range(STORES)) * share)
    seven = operator.placement(queues.fresh("seven"))
    assert {seven.count(store) for store in range(STORES)} == {1, 2}


@pytest.mark.rule("SEED-2", "SEED-6", "SEED-7")
def test_a_message_is_in_the_directory_of_its_store_and_in_no_other(
    server: ServerProcess, wire: Wire, queues: Queues
) -> None:
    def stores_with(mark: bytes) -> list[int]:
        return [
            number
            for number in range(STORES)
            for segment in (server.data / f"store-{number}").glob("*.seg")
            if mark in segment.read_bytes()
        ]

    operator = Operator(server)
    whole, partitioned = queues.fresh("whole"), queues.fresh("four")
    wire.send(whole, *(f"whole-mark-{number}" for number in range(8)))
    assert stores_with(b"whole-mark") == operator.placement(whole)
    keys = key_of_each(4)
    wire.send(partitioned, *(keyed(f"mark of {key}", key) for key in keys))
    placement = operator.placement(partitioned)
    for partition, key in enumerate(keys):
        assert stores_with(f"mark of {key}".encode()) == [placement[partition]]


@pytest.mark.rule("SEED-61", "CNT-4", "CNT-5", "SEED-62")
def test_counts_are_sums_over_the_partitions_and_shown_for_each(
    server: ServerProcess, wire: Wire, queue: str
) -> None:
    keys = key_of_each(4)
    for place, key in enumerate(keys):
        wire.fill(queue, (keyed("text", key) for _ in range(place + 1)))
    receiver = wire.receiver(queue, credit=2)
    receiver.wait_for(2)
    shown = Operator(server).entity(queue)
    assert [fragment["active"] for fragment in shown["fragments"]] == [1, 2, 3, 4]
    assert shown["totals"]["active"] == 10
    assert shown["totals"]["locked"] == 2
    total_bytes = sum(fragment["bytes"] for fragment in shown["fragments"])
    assert shown["totals"]["bytes"] == total_bytes > 0
    assert shown["availability"] == "Available"


def test_the_command_shows_the_same(server: ServerProcess, queues: Queues) -> None:
    queue = queues.fresh("four")
    place = ("--url", f"http://127.0.0.1:{server.ready.http_port}")
    done = command("entity", "show", queue, "--json", *place)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == Operator(server).entity(queue)
    table = command("entity", "show", queue, *place).stdout
    assert f"{queue}: queue, 4 fragments, Available" in table


# --- sizes ----------------------------------------------------------------------------------


@pytest.mark.rule("SEED-18", "SEED-20", "CON-17")
@pytest.mark.parametrize(
    ("profile", "gigabytes"),
    [
        ("basic", {1, 2, 3, 4, 5}),
        ("standard", {1, 2, 3, 4, 5}),
        ("premium-2017", {1, 2, 3, 4, 5, 10, 20, 40, 80}),
        ("premium-2020", {1, 2, 3, 4, 5, 10, 20, 40, 80}),
    ],
)
def test_sizes_are_those_of_the_tier(tmp_path: Path, profile: str, gigabytes: set[int]) -> None:
    def size(megabytes: int) -> dict[str, str]:
        return {"max_size_in_megabytes": str(megabytes)}

    file = tmp_path / "sizes.toml"
    allowed = {f"size-{gigabyte}": size(gigabyte * 1024) for gigabyte in gigabytes}
    accepted, text = checked(file, allowed, profile)
    assert accepted, text
    accepted, text = checked(file, {"wrong": size(6 * 1024)}, profile)
    assert not accepted
    listed = ", ".join(str(gigabyte * 1024) for gigabyte in sorted(gigabytes))
    assert f"is not allowed; allowed: {listed}." in text


@pytest.mark.rule("SEED-18", "SEED-20")
def test_the_default_size_is_a_gigabyte(server: ServerProcess, queues: Queues) -> None:
    properties = Operator(server).entity(queues.fresh("whole"))["properties"]
    assert properties["max_size_in_megabytes"] == 1024


@pytest.mark.rule("SEED-24", "SEED-19")
def test_the_overview_shows_the_size_of_all_partitions(
    server: ServerProcess, queues: Queues
) -> None:
    operator = Operator(server)
    assert operator.entity(queues.fresh("whole"))["bytes_max"] == 1024 * MEGABYTE
    assert operator.entity(queues.fresh("spread"))["bytes_max"] == 16 * 1024 * MEGABYTE


@pytest.mark.rule("SEED-19", "CON-4", "ERR-9", "ERR-23", "QTA-4")
def test_a_partitioned_queue_holds_its_size_in_every_partition(
    server: ServerProcess, bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue, whole = queues.fresh("tiny"), queues.fresh("whole-tiny")  # a megabyte
    fitting = MEGABYTE * 9 // 10

    def large() -> Message:
        return Message(body=b"x" * fitting, inferred=True)

    wire.send(whole, large())
    with pytest.raises(ServiceBusQuotaExceededError, match=str(MEGABYTE)):
        bus.sender(whole).send_messages(ServiceBusMessage(b"x" * fitting))
    wire.send(queue, large(), large(), large(), large())
    shown = Operator(server).entity(queue)["fragments"]
    assert [fragment["active"] for fragment in shown] == [1, 1, 1, 1]
    with pytest.raises(ServiceBusQuotaExceededError):
        bus.sender(queue).send_messages(ServiceBusMessage(b"x" * fitting))


@pytest.mark.rule("CON-17")
def test_in_premium_the_size_is_that_of_the_whole_queue(site: Site) -> None:
    with site.serve({"p": PARTITIONED}, "--profile", "premium-2017") as server:
        shown = Operator(server).entity("p")
    assert shown["fragment_count"] == 2
    assert shown["bytes_max"] == 1024 * MEGABYTE


# --- quotas ---------------------------------------------------------------------------------


@pytest.mark.rule("SEED-77", "QTA-3", "CON-8")
@pytest.mark.parametrize("profile", ["basic", "standard"])
def test_a_hundred_partitioned_queues_are_the_most(tmp_path: Path, profile: str) -> None:
    file = tmp_path / "many.toml"
    hundred = {f"p-{number}": PARTITIONED for number in range(100)}
    others = {f"w-{number}": WHOLE for number in range(50)}
    accepted, text = checked(file, hundred | others, profile)
    assert accepted, text
    accepted, text = checked(file, hundred | others | {"one-more": PARTITIONED}, profile)
    assert not accepted
    assert "has 100 partitioned entities, the maximum" in text
    assert "queue[150]" in text


@pytest.mark.rule("SEED-77", "QTA-3")
def test_the_quota_counts_what_was_created_before(site: Site) -> None:
    hundred = {f"p-{number}": PARTITIONED for number in range(100)}
    with site.serve(hundred, "--profile", "standard", "--stores", "4") as server:
        assert Operator(server).entity("p-99")["fragment_count"] == 16
    text = site.refusal({"one-more": PARTITIONED}, "--profile", "standard", "--stores", "4")
    assert "has 100 partitioned entities, the maximum" in text


@pytest.mark.slow
@pytest.mark.rule("SEED-77", "QTA-2", "CON-8", "CON-9")
def test_partitioned_queues_count_toward_the_quota_of_all(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    every = {f"w-{number}": WHOLE for number in range(9_999)}
    accepted, text = checked(file, every | {"last": PARTITIONED, "one-more": WHOLE}, "standard")
    assert not accepted
    assert "queue[10000]: The namespace has 10000 queues and topics, the maximum" in text


@pytest.mark.rule("CON-9", "QTA-2")
def test_premium_has_room_for_a_thousand(tmp_path: Path) -> None:
    every = {f"w-{number}": WHOLE for number in range(1_001)}
    accepted, text = checked(tmp_path / "all.toml", every, "premium-2020")
    assert not accepted
    assert "has 1000 queues and topics, the maximum" in text


# --- what is stored outlives the process ----------------------------------------------------


@pytest.mark.rule("SEED-28", "PAV-8", "SEQ-2", "SEQ-4", "BAT-1")
@pytest.mark.parametrize("end", ["stop", "sigkill"])
def test_every_key_stays_in_its_partition_over_a_restart(site: Site, end: str) -> None:
    keys = [f"customer-{number}" for number in range(60)]

    def send(round_number: int) -> None:
        with Wire(server) as wire:
            wire.fill("p", (keyed(f"{round_number}", key, subject=key) for key in keys * 2))

    with site.serve({"p": PARTITIONED}, "--stores", "4") as server:
        send(1)
        placement = Operator(server).placement("p")
        getattr(server, end)()
        server.start()
        assert Operator(server).placement("p") == placement
        send(2)
        with Wire(server) as wire:
            messages = wire.take("p", 4 * len(keys))
    numbers = [number_of(message) for message in messages]
    assert len(set(numbers)) == len(numbers), "a number is given once"
    for key in keys:
        own = [message for message in messages if message.subject == key]
        assert [bytes(message.body) for message in own] == [b"1", b"1", b"2", b"2"]
        assert len({partition_of(number_of(message)) for message in own}) == 1
