"""Capture: every message once, whoever else consumes, and in the order of its fragment."""

import datetime
import itertools
import json
import pydoc
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pyspark_servicebus.pipelines.capture import capture
from pyspark_servicebus.pipelines.capture.compaction import CompactSettings, compact
from pyspark_servicebus.pipelines.capture.delta import commit_window
from pyspark_servicebus.pipelines.capture.folder import OWN, Lake
from pyspark_servicebus.pipelines.capture.manifest import STAGING, load_windows
from pyspark_servicebus.pipelines.capture.target import DESCRIPTION, REACHED, CaptureTarget
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.pipelines.run.settings import SettingsError
from spark.bus import FRAGMENTS, Bus
from spark.pipelines.capture.captures import check, place_of, plain_rows, settings_for
from support.server import ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


class Seen:
    """A watcher that does something after the first batch."""

    def __init__(self, act: "object" = None) -> None:
        self.batches: list[tuple[int, int | None, int]] = []
        self._act = act

    def started(self, name: str, total: int | None) -> None:
        pass

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        self.batches.append((rows, lag, batch))
        if self._act is not None and len(self.batches) == 1:
            self._act()  # type: ignore[operator]

    def finished(self) -> None:
        pass


def test_what_is_there_and_what_others_have_settled(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 200, size=1000)
    seen = Seen()
    settings = settings_for(bus, queue, lake)
    report = capture(spark, settings, seen)
    assert (report.rows, report.waiting) == (200, 0)
    assert report.windows > 1
    assert sum(rows for rows, _, _ in seen.batches) == 200
    assert seen.batches[-1][1] == 0
    assert bus.left(queue) == (200, 0, 0)
    bodies += bus.fill(queue, 50, first=200)
    bus.consume(queue, 250)
    assert capture(spark, settings).rows == 50
    assert capture(spark, settings).rows == 0
    check(lake, bodies)
    bus.await_left(queue, 0, 0, 0)
    assert {row["delivery_count"] for row in plain_rows(lake)} == {0}


def test_folders_by_template_and_order_in_files(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 100)
    template = "bus={namespace}/{entity}-{fragment}/{yyyy}-{MM}-{dd}/{HH}{mm}"
    settings = settings_for(bus, queue, lake, template=template, window_time="1h", namespace="n")
    capture(spark, settings)
    found = check(lake, bodies)
    assert len(found.fragments) == FRAGMENTS
    for file in found.files:
        first, second, day, hour, _ = file.path.split("/")
        (index,) = file.fragments
        assert (first, second) == ("bus=n", f"{queue}-{index}")
        assert (len(day), hour[2:]) == (10, "00")
    frame = spark.read.option("recursiveFileLookup", "true").parquet(str(lake))
    assert frame.count() == 100
    for rows in frame.orderBy("sequence_number").groupBy("fragment").agg({"*": "count"}).collect():
        assert rows["count(1)"] > 0


def test_a_table_gets_one_commit_a_window(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 150, size=1000)
    settings = settings_for(bus, queue, lake, format="delta", include_amqp=True)
    report = capture(spark, settings)
    found = check(lake, bodies, is_delta=True)
    table = DeltaTable(lake)
    assert table.version() == report.windows  # and the first, which made it
    last = found.windows[-1]
    assert table.transaction_version(last.app) == last.batch
    again = CaptureTarget(Lake(str(lake)), settings, found.described["generation"])
    assert not commit_window(again.lake, last, again.schema)
    check(lake, bodies, is_delta=True)


BREAKS = {
    "before the tasks": (
        "parquet",
        "pyspark_servicebus.pipelines.capture.pipeline.window_writer",
        2,
    ),
    "before the manifest": ("delta", "pyspark_servicebus.pipelines.capture.target.save_window", 2),
    "before a final name": ("parquet", "pyspark_servicebus.pipelines.capture.folder.Lake.move", 6),
    "before the commit": ("delta", "pyspark_servicebus.pipelines.capture.target.commit_window", 2),
    "after the files": (
        "parquet",
        "pyspark_servicebus.pipelines.capture.folder.Lake.delete_folder",
        4,
    ),
    "after the commit": (
        "delta",
        "pyspark_servicebus.pipelines.capture.folder.Lake.delete_folder",
        4,
    ),
}


@pytest.mark.parametrize("step", BREAKS)
def test_a_run_that_ends_anywhere_is_ended_by_the_next(
    spark: SparkSession,
    bus: Bus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    form, name, call = BREAKS[step]
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 120, size=1000)
    settings = settings_for(bus, queue, lake, format=form)
    count = itertools.count(1)
    module, _, attribute = name.rpartition(".")
    with monkeypatch.context() as patch:
        owner = pydoc.locate(module)
        real = getattr(owner, attribute)

        def break_off(*given: object) -> object:
            if next(count) >= call:
                raise OSError("the driver is gone")
            return real(*given)

        patch.setattr(owner, attribute, break_off)
        with pytest.raises(PipelineFailed, match="the driver is gone"):
            capture(spark, settings)
    if form == "parquet":
        numbers = [row["sequence_number"] for row in plain_rows(lake)]
        assert len(numbers) == len(set(numbers))
    capture(spark, settings)
    check(lake, bodies, is_delta=form == "delta")


@pytest.mark.parametrize("lost", ["note", "cursor", "both"])
def test_the_manifests_are_enough_to_go_on(
    spark: SparkSession, bus: Bus, tmp_path: Path, lost: str
) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 150, size=1000)
    settings = settings_for(bus, queue, lake)
    assert capture(spark, settings).windows > 1
    if lost != "cursor":
        (lake / REACHED).unlink()
    if lost != "note":
        cursor = json.loads((lake / DESCRIPTION).read_text())["cursor"]
        bus.operator.drop_cursor(queue, cursor)
    bodies += bus.fill(queue, 40, first=150)
    if lost != "note":
        with pytest.raises(PipelineFailed, match=r"was dropped in fragments 0, 1, 2, 3: "):
            capture(spark, settings)
        settings = settings_for(bus, queue, lake, accept_loss=True)
    assert capture(spark, settings).rows == 40
    check(lake, bodies)


def test_messages_that_were_let_go(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    """A capture that was away for too long says so, and goes on only when it is told to."""
    queue, lake = bus.queue("plain"), tmp_path / "lake"
    little = {"retention_size": "1"}
    bodies = bus.fill(queue, 10)
    capture(spark, settings_for(bus, queue, lake, **little))
    bus.consume(queue, 10)
    bus.fill(queue, 10, first=10, size=2000)
    bus.consume(queue, 10)
    bus.await_left(queue, 0, 0, 0)
    bodies += bus.fill(queue, 3, first=20)
    with pytest.raises(PipelineFailed, match=r"discarded before they were read.*--accept-loss"):
        capture(spark, settings_for(bus, queue, lake, **little))
    capture(spark, settings_for(bus, queue, lake, accept_loss=True, **little))
    found = {row["body"].decode() for row in plain_rows(lake)}
    assert found >= set(bodies)


def test_a_task_that_comes_too_late(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    """What it leaves behind of a window that counts is no reason to touch the window again."""
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 60, size=1000)
    capture(spark, settings_for(bus, queue, lake))
    compact(spark, CompactSettings(target=str(lake)))
    [window, *_] = load_windows(Lake(str(lake)))
    late = lake / STAGING / window.name / "late.part"
    late.parent.mkdir(parents=True)
    late.touch()
    capture(spark, settings_for(bus, queue, lake))
    assert not late.parent.exists()
    check(lake, bodies)


def test_empty_windows(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    settings = settings_for(bus, queue, lake, empty_windows=True, window_time="1h")
    report = capture(spark, settings)
    assert (report.rows, report.windows, report.empty_windows) == (0, 0, 1)
    assert len(list(lake.rglob("*.parquet"))) == FRAGMENTS
    capture(spark, settings)
    bodies = bus.fill(queue, 20)
    capture(spark, settings)
    found = check(lake, bodies)
    assert 1 <= sum(window.is_empty for window in found.windows) <= 2  # the hour may have changed


class Interrupting(Seen):
    """Ctrl-C after so many messages."""

    def __init__(self, act: "object", rows: int) -> None:
        super().__init__(act)
        self._rows = rows

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        super().advanced(rows, lag, batch)
        if sum(rows for rows, _, _ in self.batches) >= self._rows:
            raise KeyboardInterrupt


def test_it_goes_on_until_it_is_interrupted(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 20)
    more: list[str] = []
    seen = Interrupting(lambda: more.extend(bus.fill(queue, 150, first=20, size=1000)), 170)
    settings = settings_for(
        bus, queue, lake, continuous=True, window_time="1h", starting="earliest"
    )
    report = capture(spark, settings, seen)
    assert report.rows == 170  # the second window was full long before its hour was over
    check(lake, bodies + more)


def test_it_goes_on_until_its_time_is_up(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 20)
    settings = settings_for(bus, queue, lake, continuous=True, run_time="1s", window_time="1h")
    assert capture(spark, settings).rows == 20
    check(lake, bodies)


def test_a_subscription(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    with place_of(bus).admin() as admin:
        admin.create("topic", "captured-topic", {})
        admin.create("subscription", "captured-topic/Subscriptions/all", {})
    with bus.client.get_topic_sender("captured-topic") as sender:
        sender.send_messages([ServiceBusMessage(f"t{n}") for n in range(5)])
    entity = "captured-topic/Subscriptions/all"
    assert entity in {found.path for found in place_of(bus).entities()}
    capture(spark, settings_for(bus, entity, tmp_path / "lake"))
    found = check(tmp_path / "lake", [f"t{n}" for n in range(5)])
    assert "/captured-topic-Subscriptions-all/" in found.files[0].path


def test_a_scheduled_message_is_captured_when_its_time_has_come(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, lake = bus.queue("plain"), tmp_path / "lake"
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)
    bus.send(queue, ServiceBusMessage("later", scheduled_enqueue_time_utc=soon))
    bus.send(queue, ServiceBusMessage("now"))
    settings = settings_for(bus, queue, lake)
    capture(spark, settings)
    bus.await_left(queue, 2, 0, 0)
    capture(spark, settings)
    check(lake, ["now", "later"])


# --- what is refused ----------------------------------------------------------------------


def test_another_capture_does_not_go_into_the_same_target(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue, lake = bus.queue("plain"), tmp_path / "lake"
    bus.fill(queue, 3)
    capture(spark, settings_for(bus, queue, lake))
    for words, changed in {
        "entity: the capture in": {"entity": bus.queue("plain")},
        "include_amqp: the capture": {"include_amqp": True},
        "format: the capture": {"format": "delta"},
        "cursor: the capture": {"cursor": "mine"},
    }.items():
        table = {"entity": queue, **changed}
        with pytest.raises(SettingsError, match=words):
            capture(spark, settings_for(bus, target=lake, **table))  # type: ignore[arg-type]
    with (
        Lake(str(lake)).alone("capture"),
        pytest.raises(PipelineFailed, match="another process"),
    ):
        capture(spark, settings_for(bus, queue, lake))
    bus.make_anew(queue)
    with pytest.raises(SettingsError, match="deleted and created again"):
        capture(spark, settings_for(bus, queue, lake))


def test_a_folder_of_something_else_is_left_alone(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    (tmp_path / "other.parquet").write_bytes(b"PAR1")
    with pytest.raises(SettingsError, match="contains other files"):
        capture(spark, settings_for(bus, bus.queue("plain"), tmp_path))
    assert not (tmp_path / OWN / "capture.json").exists()


def test_no_such_queue(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    with pytest.raises(PipelineFailed, match="no-such-queue"):
        capture(spark, settings_for(bus, "no-such-queue", tmp_path / "lake"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem with room for little."""
    place = tmp_path / "small"
    place.mkdir()
    size = "size=768k"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("no filesystem can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk(spark: SparkSession, bus: Bus, tmp_path: Path, small_disk: Path) -> None:
    queue, lake = bus.queue("plain"), small_disk / "lake"
    bodies = bus.fill(queue, 100, size=1000)
    ballast = small_disk / "ballast"
    settings = settings_for(bus, queue, lake, window_size="10m")
    lake.mkdir()
    ballast.write_bytes(bytes(764 * 1024))
    with pytest.raises(PipelineFailed, match=r"The target is full .* make room"):
        capture(spark, settings)
    assert plain_rows(lake) == []
    ballast.unlink()
    capture(spark, settings)
    check(lake, bodies)


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A server that may be restarted."""
    config = tmp_path / "namespace.toml"
    config.write_text('[[queue]]\nname = "restarted"\nenable_partitioning = true\n')
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        yield bus


def test_the_bus_restarts_in_the_middle(spark: SparkSession, own_bus: Bus, tmp_path: Path) -> None:
    bodies = own_bus.fill("restarted", 300, size=1000)
    seen = Seen(own_bus.server.restart)
    settings = settings_for(own_bus, "restarted", tmp_path / "lake", retry="60s")
    report = capture(spark, settings, seen)
    assert report.windows > 2
    check(tmp_path / "lake", bodies)
