"""Who a node is to the others: the name of its certificate, replaced and re-signed as it runs."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partibus.cluster.peer_certificates import CA_FILE, LOOK_S, PeerCertificates
from partibus.domain.clock import SystemClock
from partibus.domain.errors import ConfigError
from partibus.server.nodes.certificates import make_cluster, make_node, node_name
from unit.cluster.test_tls_peers import Cluster, Node, until


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for node in made.made:
        await node.peers.close()


async def start(*nodes: Node) -> None:
    await asyncio.gather(*(node.start() for node in nodes))


async def test_the_certificate_says_which_number_a_node_may_have(cluster: Cluster) -> None:
    one, two = cluster.node(1), cluster.node(2)
    for node in (one, two):
        node.group.names = lambda: {1: "node-1", 2: "node-2"}
    await start(one, two)
    assert one.peers.lost_workers() == two.peers.lost_workers() == []


async def test_a_node_cannot_claim_the_number_of_another(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    one = cluster.node(1)
    one.group.names = lambda: {1: "node-1", 2: "node-2"}
    false_two = Node(2, cluster.directory(3), cluster.nodes)
    cluster.made.append(false_two)
    starting = [asyncio.create_task(node.start()) for node in (one, false_two)]
    await until(lambda: caplog.text.count("certificate does not belong to number") >= 2)
    for task in starting:
        task.cancel()
    await asyncio.gather(*starting, return_exceptions=True)
    assert not one.peers._inbound
    assert one.peers.lost_workers() == [2]


async def test_who_was_let_in_under_a_false_number_is_seen_off(cluster: Cluster) -> None:
    one = cluster.node(1)
    names = {1: "node-1"}
    one.group.names = lambda: names
    false_two = Node(2, cluster.directory(3), cluster.nodes)
    cluster.made.append(false_two)
    await start(one, false_two)
    assert one.peers._inbound, "the table did not have the number yet"
    names[2] = "node-2"
    one.group.changed()
    await until(lambda: not one.peers._inbound)


async def test_a_node_of_the_release_before_has_no_name(cluster: Cluster) -> None:
    one, two = cluster.node(1), cluster.node(2)
    one.group.names = lambda: {1: "node-1", 2: ""}
    await start(one, two)
    assert one.peers.lost_workers() == []


class Moments:
    """A clock for how often files are looked at."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_on(self) -> None:
        self.now_s += LOOK_S


def shown(directory: Path) -> ssl.SSLContext:
    """The context of a node, as it is made when it starts."""
    return PeerCertificates(directory).to_connect()


def shakes_hands(accepting: ssl.SSLContext, connecting: ssl.SSLContext) -> bool:
    """Whether both ends trust each other, without a socket."""
    ways = [ssl.MemoryBIO() for _ in range(2)]
    server = accepting.wrap_bio(ways[0], ways[1], server_side=True)
    client = connecting.wrap_bio(ways[1], ways[0], server_hostname=None)
    try:
        for _ in range(4):
            for end in (client, server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        server.read(1)
    except ssl.SSLWantReadError:
        return True
    except ssl.SSLError:
        return False
    return False


def test_new_certificates_are_taken_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    one, two = tmp_path / "1", tmp_path / "2"
    make_cluster(one, "node-1", SystemClock())
    moments = Moments()
    certificates = PeerCertificates(one, moments)
    before = certificates.to_accept()
    make_node(one, one, "node-1", SystemClock())
    make_node(one, two, "node-2", SystemClock())
    assert certificates.to_accept() is before, "looked at a moment ago"
    moments.pass_on()
    assert certificates.to_accept() is not before
    assert "new connections between nodes use it" in caplog.text
    assert shakes_hands(certificates.to_accept(), shown(two))


def test_files_that_do_not_fit_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_cluster(tmp_path, "node-1", SystemClock())
    moments = Moments()
    certificates = PeerCertificates(tmp_path, moments)
    before = certificates.to_accept(), certificates.to_connect()
    (tmp_path / CA_FILE).write_text("half of it")
    moments.pass_on()
    assert (certificates.to_accept(), certificates.to_connect()) == before
    assert "stay in use" in caplog.text


def test_an_authority_is_replaced_while_all_nodes_speak_to_each_other(tmp_path: Path) -> None:
    """As the guide says: trust both, sign again, trust the new one alone."""
    old, new = tmp_path / "old", tmp_path / "new"
    make_cluster(old, "spare", SystemClock())
    make_cluster(new, "spare", SystemClock())
    nodes = [tmp_path / name for name in ("node-1", "node-2")]
    running = []
    moments = Moments()
    for node in nodes:
        make_node(old, node, node.name, SystemClock())
        running.append(PeerCertificates(node, moments))

    def all_speak() -> bool:
        moments.pass_on()
        one, two = running
        there = shakes_hands(one.to_accept(), two.to_connect())
        return there and shakes_hands(two.to_accept(), one.to_connect())

    def changed(step: str) -> None:
        for node in nodes:
            if step == "trust both":
                both = (old / CA_FILE).read_bytes() + (new / CA_FILE).read_bytes()
                (node / CA_FILE).write_bytes(both)
            elif step == "sign again":
                make_node(new, node, node.name, SystemClock())
            else:
                shutil.copy(new / CA_FILE, node / CA_FILE)
            assert all_speak(), f"{step}, after {node.name}"

    assert all_speak()
    for step in ("trust both", "sign again", "trust the new one"):
        changed(step)
    late = tmp_path / "late"
    make_node(old, late, "late", SystemClock())
    assert not shakes_hands(running[0].to_accept(), shown(late)), "the old one has no say any more"


def test_a_new_node_trusts_what_the_directory_of_the_authority_does(tmp_path: Path) -> None:
    """As pods have it, whose directories are new at each start."""
    old, new = tmp_path / "old", tmp_path / "new"
    make_cluster(old, "node-1", SystemClock())
    make_cluster(new, "node-2", SystemClock())
    both = (new / CA_FILE).read_bytes() + (old / CA_FILE).read_bytes()
    (new / CA_FILE).write_bytes(both)
    for _ in range(2):
        make_node(new, tmp_path / "node", "node-3", SystemClock())
        assert (tmp_path / "node" / CA_FILE).read_bytes() == both


def test_the_name_of_a_node(tmp_path: Path) -> None:
    make_cluster(tmp_path, "alpha", SystemClock())
    assert node_name(tmp_path) == "alpha"
    with pytest.raises(ConfigError, match="partibus cluster join"):
        node_name(tmp_path / "nothing")
