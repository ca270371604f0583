"""Spark's reads, claims and writes go to the nodes that own the fragments, and no further."""

import re
import subprocess

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from pyspark_servicebus.options import sink_options
from pyspark_servicebus.sink.writers import BatchWriter
from spark.nodes.stand import Stand
from spark.source.driving import Log, Query

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.group("postgres"),
    pytest.mark.group("namespaces"),
    pytest.mark.xdist_group("spark"),
]

COUNT = 300
SIZE = 10_000
SENT = re.compile(r"bytes_sent:(\d+)")


def between_nodes(stand: Stand) -> int:
    """The bytes that nodes have ever sent each other, over the connections they have now."""
    nodes = [node for node in stand.cluster.status()["nodes"] if node["state"] == "up"]
    ports = [node["address"].rpartition(":")[2] for node in nodes]
    ends = " or ".join(f"sport = :{port} or dport = :{port}" for port in ports)
    command = ["ss", "--no-header", "--tcp", "--info", "state", "established", f"( {ends} )"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(map(int, SENT.findall(told)))


def write(stand: Stand, queue: str, keyed: bool, **options: str) -> None:
    rows = {"body": [b"x" * SIZE] * COUNT, "message_id": [f"m{n}" for n in range(COUNT)]}
    schema = StructType().add("body", BinaryType()).add("message_id", StringType())
    if keyed:
        rows["partition_key"] = [f"k{n}" for n in range(COUNT)]
        schema.add("partition_key", StringType())
    writer = BatchWriter(sink_options(stand.options(queue, **options)), schema)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(rows)]))])


def test_nothing_that_is_read_or_written_goes_from_node_to_node(stand: Stand) -> None:
    queue, hopping = stand.queue(), stand.queue()
    payload = COUNT * SIZE
    before = between_nodes(stand)
    write(stand, queue, keyed=False)
    write(stand, queue, keyed=True)
    write(stand, "direct", keyed=False, deliver="dedup", dedupKey="message_id")
    for mode in ("cursor", "claim"):
        query = Query(Log(), stand.options(queue, mode=mode, cursor="c", claimOwner="o"))
        assert len(query.drain()) == 2 * COUNT
        query.stop()
    stand.await_left(queue, 0, 0, 0)
    active = stand.totals("direct")["active"]
    assert active == COUNT
    # Nodes talk about leases and looks of operators; what was moved is twenty times as much.
    assert between_nodes(stand) - before < payload / 4

    # The measure itself: a stock client has one node, which passes on what belongs elsewhere.
    before = between_nodes(stand)
    node = stand.cluster.nodes[0]
    with (
        ServiceBusClient.from_connection_string(node.connection_string) as client,
        client.get_queue_sender(hopping) as sender,
    ):
        for _ in range(COUNT):
            sender.send_messages(ServiceBusMessage(b"x" * SIZE))
    assert between_nodes(stand) - before > payload / 4
