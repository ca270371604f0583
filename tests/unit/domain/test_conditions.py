"""The names of error conditions."""

from partibus.amqp import conditions as of_engine
from partibus.domain import conditions as of_bus


def names_in(module: object) -> dict[str, str]:
    return {name: value for name, value in vars(module).items() if name.isupper()}


def test_the_engine_and_the_bus_spell_a_condition_alike() -> None:
    engine, bus = names_in(of_engine), names_in(of_bus)
    assert {name: engine[name] for name in engine.keys() & bus.keys()} == {
        name: bus[name] for name in engine.keys() & bus.keys()
    }
    assert {value for name, value in engine.items() if name not in bus}.isdisjoint(bus.values())
