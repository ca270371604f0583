"""TLS: the bulk path of a server that listens beyond loopback, and AMQP as Azure speaks it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.over_amqp.readers import PeekReader
from spark.source.driving import Log, Query
from support.server import ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[ServerProcess]:
    config = tmp_path / "namespace.toml"
    config.write_text('[[queue]]\nname = "q"\nenable_partitioning = true\n', encoding="utf-8")
    with ServerProcess(tmp_path, config, "--host", "0.0.0.0", "--memory") as server:
        yield server


def test_the_authority_of_the_server_is_needed(open_server: ServerProcess) -> None:
    options = {
        "connectionString": open_server.connection_string,
        "queue": "q",
        "cursor": "job",
        "retryDuration": "300ms",
    }
    query = Query(Log(), {**options, "caFile": str(open_server.ready.ca)})
    locations = query.reader.reading.entity.locations.values()
    assert all((location or "").startswith("grpc+tls://") for location in locations)
    assert query.drain() == []
    with pytest.raises(BulkError, match="does not answer"):
        Query(Log(), options)


def test_amqp_goes_through_tls(open_server: ServerProcess) -> None:
    text = open_server.connection_string.replace("UseDevelopmentEmulator=true", "")
    given = {"connectionString": text, "queue": "q", "transport": "amqp", "retryDuration": "300ms"}
    trusted = source_options({**given, "caFile": str(open_server.ready.ca)}, is_stream=False)
    assert PeekReader(trusted).partitions() == []
    with pytest.raises(BulkError, match=r"is not trusted .* name its authority with caFile"):
        PeekReader(source_options(given, is_stream=False)).partitions()
