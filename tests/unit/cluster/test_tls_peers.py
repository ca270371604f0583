"""Nodes that reach each other over TLS, and strangers that do not, in one process."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from partibus.cluster import peers as peers_module
from partibus.cluster.control_hub import ControlHub
from partibus.cluster.node_group import NodeGroup
from partibus.cluster.peer_certificates import CA_FILE, CERTIFICATE_FILE, KEY_FILE, peer_context
from partibus.cluster.peers import Peers
from partibus.cluster.remote import RemoteFragment
from partibus.cluster.tls_transport import SILENCE_S
from partibus.domain.clock import SystemClock
from partibus.domain.errors import ConfigError, StoreUnavailable
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Demand, Enqueue, SubQueueType
from partibus.fragment.handle import Fragment, LocalFragment
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.server.nodes.certificates import make_cluster, make_node
from partibus.server.scheduler import LoopScheduler
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Inbox, Ports

SPEC = FragmentSpec(lock_duration_ms=10_000, max_delivery_count=10)


class Node:
    """A node that serves the lane of its own number, with one fragment of that number."""

    def __init__(
        self,
        number: int,
        directory: Path,
        nodes: dict[int, tuple[str, int]],
        cluster: str = "c1",
    ) -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        self.number = number
        self.group = NodeGroup(directory, "127.0.0.1", 0)
        self.group.worker, self.group.group_id = number, cluster
        self.group.nodes = lambda: nodes
        nodes[number] = ("127.0.0.1", self.group.transport.port)
        self.broker = Broker(
            MemoryStore(notify=scheduler.call_from_thread), ManualClock(), scheduler
        )
        self.broker.open()
        own = LocalFragment(self.broker, self.broker.add(number, SPEC), 0)
        self.fragments: dict[int, Fragment] = {number: own}
        self.control = ControlHub(number)
        self.peers = Peers(self.group, loop, scheduler, self.fragments.get, self.control)
        self.peers.lanes = self.group.lanes
        self.peers.watch({number: self.broker})

    async def start(self) -> None:
        await self.peers.start()
        self.peers.serve_lanes({self.number: 1})

    def far(self, number: int) -> Fragment:
        far = self.peers.far(number)
        assert far is not None
        return RemoteFragment(far, number, 0, number)


class Cluster:
    """A directory with an authority, and nodes made by it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.nodes: dict[int, tuple[str, int]] = {}
        self.made: list[Node] = []
        make_cluster(root / "1", "node-1", SystemClock())

    def directory(self, number: int) -> Path:
        directory = self.root / str(number)
        if number > 1 and not directory.exists():
            make_node(self.root / "1", directory, f"node-{number}", SystemClock())
        return directory

    def node(self, number: int, cluster: str = "c1") -> Node:
        node = Node(number, self.directory(number), self.nodes, cluster)
        self.made.append(node)
        return node

    async def pair(self) -> tuple[Node, Node]:
        one, two = self.node(1), self.node(2)
        await asyncio.gather(one.start(), two.start())
        return one, two


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for node in made.made:
        await node.peers.close()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  # each turn is what is waited for
        await asyncio.sleep(0)


async def send(fragment: Fragment) -> Ports:
    ports = Ports()
    fragment.submit(Enqueue(ports, [NewMessage(b"hello", -1)], [4], 5))
    await until(lambda: bool(ports.confirmations or ports.refusals))
    return ports


async def test_nodes_find_each_other_and_serve_each_other(cluster: Cluster) -> None:
    one, two = await cluster.pair()
    assert one.peers.lost_workers() == two.peers.lost_workers() == []
    assert (await send(one.far(2))).confirmations == [4]
    assert (await send(two.far(1))).confirmations == [4]


async def test_what_crosses_is_tls_1_3(cluster: Cluster) -> None:
    one, _ = await cluster.pair()
    (caller,) = one.peers._callers
    transport = caller.channel._transport
    assert transport is not None
    assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"


async def test_a_node_knows_where_each_lane_is_served(cluster: Cluster) -> None:
    one, two = await cluster.pair()
    await until(lambda: one.group.lanes.server_of(2) == 2)
    two.peers.serve_lanes({2: 1, 7: 3})
    await until(lambda: one.group.lanes.server_of(7) == 2)
    assert one.group.lanes.epoch_of(7) == 3
    await two.peers.close()
    await until(lambda: one.group.lanes.server_of(2) is None)


async def test_a_lane_that_was_down_and_is_opened_anew_takes_messages(cluster: Cluster) -> None:
    """Its first broker was thrown away, so nobody heard that its store is up again."""
    one, two = await cluster.pair()
    far = one.far(2)
    await until(lambda: far.is_available)
    store = two.broker.store
    assert isinstance(store, MemoryStore)
    store.fail()
    await until(lambda: not far.is_available)
    scheduler = LoopScheduler(asyncio.get_running_loop())
    restarted = Broker(MemoryStore(notify=scheduler.call_from_thread), ManualClock(), scheduler)
    restarted.open()
    two.fragments[2] = LocalFragment(restarted, restarted.add(2, SPEC), 0)
    two.peers.watch({2: restarted})
    two.peers.serve_lanes({2: 2})
    await until(lambda: far.is_available)
    assert (await send(far)).confirmations == [4]


async def test_nodes_come_and_go_while_the_others_run(cluster: Cluster) -> None:
    one, two = await cluster.pair()
    three = cluster.node(3)
    one.group.changed()
    two.group.changed()
    await three.start()
    await until(lambda: one.group.lanes.server_of(3) == 3)
    assert (await send(two.far(3))).confirmations == [4]
    assert one.control.workers == [1, 2, 3]
    handle = one.far(3)
    await three.peers.close()
    del cluster.nodes[3]
    one.group.changed()
    assert one.control.workers == [1, 2]
    assert isinstance((await send(handle)).refusals[0][1], StoreUnavailable)


async def test_a_node_that_is_gone_is_not_waited_for_by_one_that_starts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of several: the leases of the old ones lapse while the new ones start."""
    monkeypatch.setattr(peers_module, "GATHERING_S", 3600.0)
    cluster.nodes[9] = ("127.0.0.1", 1)
    one = cluster.node(1)
    starting = asyncio.ensure_future(one.start())
    await until(lambda: one.peers.numbers == [9])
    assert not starting.done()
    del cluster.nodes[9]
    one.group.changed()
    await starting


async def test_a_node_that_hangs_is_delivered_nothing_more(cluster: Cluster) -> None:
    one, two = await cluster.pair()
    inbox = Inbox()
    waiting = two.far(1).consumer(inbox, SubQueueType.MAIN, False)
    two.far(1).submit(Demand(waiting, 1, False))
    machine = one.broker._machines[1]
    await until(lambda: bool(machine.state.main.waiting))
    del cluster.nodes[2]
    one.group.changed()
    await until(lambda: not machine.state.main.waiting)
    assert not one.peers._inbound


async def test_a_machine_that_is_cut_off_is_noticed_at_both_ends(cluster: Cluster) -> None:
    one, two = await cluster.pair()
    (caller,), (inbound,) = one.peers._callers, two.peers._inbound
    for channel in (caller.channel, inbound.channel):
        assert channel._transport is not None
        sock = channel._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == SILENCE_S * 1000


async def test_a_node_of_another_authority_is_refused(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = cluster.node(1)
    await one.start()
    other = Cluster(tmp_path / "other")
    await _knock(one, other.directory(2))
    assert "is not signed by the authority of this cluster" in caplog.text
    assert not one.peers._inbound


async def test_an_expired_certificate_is_refused(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = cluster.node(1)
    await one.start()
    old = tmp_path / "old"
    make_node(cluster.directory(1), old, "node-2", ManualClock(1_000_000_000_000))
    await _knock(one, old)
    assert "its certificate has expired" in caplog.text
    assert not one.peers._inbound


async def test_who_shows_no_certificate_is_refused(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    one = cluster.node(1)
    await one.start()
    context = ssl.create_default_context(cafile=str(cluster.directory(1) / CA_FILE))
    context.check_hostname = False
    await _knock(one, context)
    assert "it did not present a certificate" in caplog.text


async def test_a_node_of_another_cluster_is_refused(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Two clusters may share an authority by mistake."""
    one, two = cluster.node(1), cluster.node(2, "c2")
    starting = [asyncio.create_task(node.start()) for node in (one, two)]
    await until(lambda: "it belongs to another server or cluster" in caplog.text)
    for task in starting:
        task.cancel()
    await asyncio.gather(*starting, return_exceptions=True)
    assert (one.peers.lost_workers(), two.peers.lost_workers()) == ([2], [1])


@pytest.mark.parametrize(
    ("newest", "oldest", "is_spoken_to"),
    [(1, 1, True), (2, 1, True), (3, 2, True), (4, 3, True), (0, 0, False), (5, 4, False)],
)
async def test_one_release_of_overlap(
    cluster: Cluster,
    caplog: pytest.LogCaptureFixture,
    newest: int,
    oldest: int,
    is_spoken_to: bool,
) -> None:
    one = cluster.node(1)
    await one.start()
    context = peer_context(cluster.directory(2), ssl.Purpose.SERVER_AUTH)
    hello = peers_module.msgspec.msgpack.encode([[0, newest, "c1", 2, oldest]])
    answer = await _knock(one, context, len(hello).to_bytes(4) + hello)
    assert bool(answer) is is_spoken_to
    assert ("of the protocol" in caplog.text) is not is_spoken_to


async def test_a_directory_without_certificates_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="partibus cluster join"):
        peer_context(tmp_path, ssl.Purpose.SERVER_AUTH)


async def _knock(node: Node, who: Path | ssl.SSLContext, words: bytes = b"") -> bytes:
    """What a stranger hears of a node, at most until it closes."""
    context = who
    if isinstance(who, Path):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(who / CERTIFICATE_FILE, who / KEY_FILE)
    assert isinstance(context, ssl.SSLContext)
    host, port = "127.0.0.1", node.group.transport.port
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(words)
        heard = await reader.read(5)
        writer.close()
    except OSError:
        heard = b""
    await asyncio.sleep(0)
    return heard
