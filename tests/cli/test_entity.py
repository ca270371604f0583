"""`partibus entity`, `partibus store` and `partibus purge` against the real server."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from cli.command import FRAGMENTS, QUEUES, STORES, Partibus
from support.receiving import collect
from support.sas import with_key
from support.server import ServerProcess


def fill(client: ServiceBusClient, queue: str, count: int) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(count):
            sender.send_messages(ServiceBusMessage(f"message {number}"))


def test_every_entity_is_listed(partibus: Partibus) -> None:
    listed = partibus("entity", "list", "--json").json["entities"]
    assert len(listed) == 2 * QUEUES
    text = partibus("entity", "list").out
    for entity in listed:
        assert entity["name"] in text


@pytest.mark.rule("SEED-61", "CNT-4")
def test_show_tells_what_each_fragment_holds(
    partibus: Partibus, client: ServiceBusClient, parted: str
) -> None:
    fill(client, parted, 2 * FRAGMENTS)
    with client.get_queue_receiver(parted) as receiver:
        received = collect(receiver, 3)
        receiver.dead_letter_message(received[0], reason="test")
        receiver.defer_message(received[1])
        shown = partibus("entity", "show", parted, "--json").json
    totals = shown["totals"]
    assert totals["active"] == 2 * FRAGMENTS - 2
    assert totals["locked"] >= 1
    assert (totals["dead_letter"], totals["deferred"]) == (1, 1)
    assert shown["availability"] == "Available"
    assert [f["index"] for f in shown["fragments"]] == list(range(FRAGMENTS))
    for name in ("active", "dead_letter", "deferred", "bytes"):
        assert sum(f[name] for f in shown["fragments"]) == totals[name]
    assert len({f["store"] for f in shown["fragments"]}) == STORES
    text = partibus("entity", "show", parted.upper()).out
    assert text.startswith(f"{parted}: queue, {FRAGMENTS} fragments, Available\n")
    *fragments, total = text.splitlines()[-FRAGMENTS - 1 :]
    assert [line.split()[0] for line in fragments] == [str(n) for n in range(FRAGMENTS)]
    assert total.split()[:2] == ["total", str(totals["active"])]


def test_stores_are_listed(partibus: Partibus, server: ServerProcess) -> None:
    stores = partibus("store", "list", "--json").json["stores"]
    assert [(s["store"], s["state"]) for s in stores] == [(n, "up") for n in range(STORES)]
    assert all(s["disk_bytes"] > 0 for s in stores)
    assert sum(s["fragments"] for s in stores) == QUEUES * (1 + FRAGMENTS)
    text = partibus("store", "list").out
    assert str(server.data / "store-3") in text


def test_purge_deletes_what_waits(partibus: Partibus, client: ServiceBusClient, queue: str) -> None:
    fill(client, queue, 5)
    with client.get_queue_receiver(queue) as receiver:
        (held,) = collect(receiver, 1)
        assert partibus("purge", queue, "--yes").out == f"{queue}: 4 messages deleted\n"
        receiver.dead_letter_message(held)
    shown = partibus("purge", queue, "--dead-letter", "-y", "--json").json
    assert (shown["purged"], shown["subqueue"], shown["unavailable_fragments"]) == (
        1,
        "dead-letter",
        [],
    )
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        assert receiver.peek_messages() == []


def test_purge_before_a_time_spares_what_is_younger(
    partibus: Partibus, client: ServiceBusClient, parted: str
) -> None:
    fill(client, parted, 3)
    old = partibus("purge", parted, "--yes", "--before", "2001-01-01T00:00:00Z").out
    assert old == f"{parted}: 0 messages deleted\n"
    assert partibus("purge", parted, "--yes").out == f"{parted}: 3 messages deleted\n"


def test_purge_names_the_fragments_it_could_not_reach(
    partibus: Partibus, client: ServiceBusClient, parted: str
) -> None:
    fill(client, parted, FRAGMENTS)
    partibus("fault", "store", "1", "down")
    fragments = partibus("entity", "show", parted, "--json").json["fragments"]
    down = [f["index"] for f in fragments if f["store"] == 1]
    done = partibus.try_("purge", parted, "--yes")
    assert done.code == 1
    assert done.out == f"{parted}: {FRAGMENTS - len(down)} messages deleted\n"
    assert done.err.endswith(f": {', '.join(map(str, down))}\n")


def test_purge_asks_first(partibus: Partibus, queue: str) -> None:
    done = partibus.try_("purge", queue)
    assert (done.code, done.out) == (2, "")
    assert "--yes" in done.err


def test_the_command_as_a_process(partibus: Partibus, parted: str) -> None:
    shown = partibus.process("entity", "show", parted)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == partibus("entity", "show", parted).out
    missing = partibus.process("entity", "show", "nope")
    assert (missing.code, missing.out) == (4, "")
    assert missing.err.count("\n") == 1


# --- when it fails ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [("entity", "show", "nope"), ("purge", "nope", "--yes")])
def test_a_missing_entity_is_exit_code_four(partibus: Partibus, verb: tuple[str, ...]) -> None:
    done = partibus.try_(*verb)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("partibus: The messaging entity 'nope' could not be found.")
    assert done.err.count("\n") == 1


def test_a_policy_without_manage_is_exit_code_six(server: ServerProcess) -> None:
    reader = Partibus(with_key(server.connection_string, "Reader", "reader-key"))
    done = reader.try_("entity", "list")
    assert done.code == 6
    assert "'Manage' claim(s) are required" in done.err
    forged = Partibus(with_key(server.connection_string, "Reader", "wrong"))
    assert forged.try_("store", "list").code == 6


def test_the_http_port_and_its_variable_work_too(partibus: Partibus, server: ServerProcess) -> None:
    url = f"http://{server.ready.http_host}:{server.ready.http_port}"
    assert partibus("store", "list", "--url", url, "--json").json["stores"]
    assert Partibus(None)("store", "list", "--url", url, "--json").json["stores"]


def test_a_server_that_is_not_there_is_exit_code_five() -> None:
    done = Partibus(
        "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;"
        "UseDevelopmentEmulator=true"
    ).try_("entity", "list")
    assert done.code == 5
    assert "Is the server running? Start it with: partibus serve" in done.err


@pytest.mark.rule("CNT-4")
def test_locked_dead_letters_are_in_the_totals(
    partibus: Partibus, client: ServiceBusClient, parted: str
) -> None:
    fill(client, parted, 3)
    with client.get_queue_receiver(parted) as receiver:
        for message in collect(receiver, 3):
            receiver.dead_letter_message(message)
    sub_queue = ServiceBusSubQueue.DEAD_LETTER
    with client.get_queue_receiver(parted, sub_queue=sub_queue, prefetch_count=0) as receiver:
        assert len(collect(receiver, 2)) >= 2
        totals = partibus("entity", "show", parted, "--json").json["totals"]
        assert (totals["active"], totals["dead_letter"]) == (0, 3)
        assert totals["locked"] == totals["dead_letter_locked"] >= 2
