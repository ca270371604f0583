"""How figures are written for Prometheus, and what is added up beyond the cap."""

from prometheus_client.parser import text_string_to_metric_families

from partibus.ops.metrics import render
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
    figures = {"entities": [entity("q", active=3)], "workers": {0: None}, "aggregated": 0}
    text = render(figures)
    assert samples(text, "partibus_worker_up") == {("0",): 0}
    assert samples(text, "partibus_entity_active_messages") == {("q", "queue"): 3}


def test_names_that_need_quoting_come_through() -> None:
    figures = {"entities": [entity('a"b\\c\n')], "workers": {}, "aggregated": 0}
    text = render(figures)
    assert ('a"b\\c\n', "queue") in samples(text, "partibus_entity_active_messages")


def test_beyond_the_cap_entities_are_one() -> None:
    other = _together([entity("a", active=1), entity("b", active=2)])
    text = render({"entities": [other], "workers": {}, "aggregated": 2})
    assert samples(text, "partibus_entity_active_messages") == {("(other)", "(other)"): 3}
    assert samples(text, "partibus_metrics_entities_aggregated") == {(): 2}
