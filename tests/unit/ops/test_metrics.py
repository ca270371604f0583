"""How signals are written for Prometheus, and what is added up beyond the cap."""

from prometheus_client.parser import text_string_to_metric_families

from partibus.ops.metrics import (
    PIECE_ENTITIES,
    QUICK_ENTITIES_MAX,
    QUICK_LINES_MAX,
    EntityText,
    families,
    render,
)
from partibus.server.operators.signals import COUNTED, _together


def entity(name: str, **counts: int) -> dict[str, object]:
    return {
        "name": name,
        "kind": "queue",
        "fragments": [],
        "available": 1,
        "fragment_count": 1,
        "counts": {**dict.fromkeys(COUNTED, 0), **counts},
    }


def samples(text: bytes, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name == name
    }


def test_a_silent_worker_is_down_and_hides_nothing_else() -> None:
    signals = {"entities": [entity("q", active=3)], "workers": {0: None}, "aggregated": 0}
    text = render(signals)
    assert samples(text, "partibus_worker_up") == {("0",): 0}
    assert samples(text, "partibus_entity_active_messages") == {("q", "queue"): 3}


def test_names_that_need_quoting_come_through() -> None:
    signals = {"entities": [entity('a"b\\c\n')], "workers": {}, "aggregated": 0}
    text = render(signals)
    assert ('a"b\\c\n', "queue") in samples(text, "partibus_entity_active_messages")


def test_beyond_the_cap_entities_are_one() -> None:
    other = _together([entity("a", active=1), entity("b", active=2)])
    text = render({"entities": [other], "workers": {}, "aggregated": 2})
    assert samples(text, "partibus_entity_active_messages") == {("(other)", "(other)"): 3}
    assert samples(text, "partibus_metrics_entities_aggregated") == {(): 2}


def test_a_scrape_after_another_says_what_is_true_now() -> None:
    kept = EntityText()
    steps = [
        [entity("a", active=1), entity("b", active=2)],
        [entity("a", active=1), entity("b", active=7, incoming=5)],
        [entity("b", active=7), entity("c")],
        [],
        [entity("b", active=1)],
    ]
    for entities in steps:
        signals = {"entities": entities, "workers": {}, "aggregated": 0}
        assert render(signals, kept) == render(signals)
    assert samples(render(signals, kept), "partibus_entity_active_messages") == {("b", "queue"): 1}


def test_of_many_entities_the_changed_ones_are_written_again() -> None:
    kept, count = EntityText(), 2 * PIECE_ENTITIES + 1
    entities = [entity(f"queue-{number}") for number in range(count)]
    for changed in (0, PIECE_ENTITIES, count - 1):
        entities = entities.copy()
        entities[changed] = entity(f"queue-{changed}", active=changed + 1)
        signals = {"entities": entities, "workers": {}, "aggregated": 0}
        assert render(signals, kept) == render(signals)


def test_a_scrape_of_few_changes_needs_no_thread() -> None:
    kept, count = EntityText(), QUICK_ENTITIES_MAX + 1
    entities = [entity(f"queue-{number}") for number in range(count)]
    assert not kept.is_quick(entities)
    render({"entities": entities, "workers": {}, "aggregated": 0}, kept)
    assert kept.is_quick(entities)
    assert kept.is_quick([*entities[:-1], entity(f"queue-{count - 1}", active=1)])
    assert not kept.is_quick([entity(f"queue-{number}", active=1) for number in range(count)])
    assert not kept.is_quick(entities[1:])
    kept.other_lines = QUICK_LINES_MAX + 1
    assert not kept.is_quick(entities)


def test_the_lines_of_many_fragments_need_a_thread() -> None:
    kept, counts = EntityText(), dict.fromkeys(COUNTED, 0)
    fragments = [
        {"index": number, "store": 0, "worker": 0, "available": True, "counts": counts}
        for number in range(QUICK_LINES_MAX)
    ]
    large = {**entity("large"), "fragment_count": len(fragments), "fragments": fragments}
    render({"entities": [large], "workers": {}, "aggregated": 0}, kept)
    assert not kept.is_quick([large])


def test_the_rows_for_others_are_those_of_a_scrape() -> None:
    signals = {"entities": [entity("q", active=3)], "workers": {0: None}, "aggregated": 0}
    text = render(signals).decode()
    written = {family.name for family in text_string_to_metric_families(text)}
    found = {series.name: rows for series, rows in families(signals)}
    assert found.keys() == written
    assert found["partibus_entity_active_messages"] == [(("q", "queue"), 3)]
    assert found["partibus_entity_messages"] == [(("q", "queue"), 3)]
