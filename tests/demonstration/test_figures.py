"""The charts of the demo say what was counted, and nothing better."""

from pathlib import Path

import pytest
from demo.figures import BINS_MAX, Stored, Timeline, draw
from demo.orders import Order
from demo.outage import Outage
from demo.senders import Sale

BEGIN = 1000.0
LAME = 2
OUTAGE = Outage(asked_down_at=1007.9, down_at=1008.0, asked_up_at=1016.0, up_at=1016.5)
SECONDS = 24


def story(
    *, elsewhere: int = 10, wait_ms: float = 5.0, lame_while_down: int = 0, seconds: int = SECONDS
) -> Timeline:
    """Ten orders a second in each of four stores; so many elsewhere while one is down."""
    orders: list[Stored] = []
    sales: dict[str, Sale] = {}
    for second in range(seconds):
        is_out = OUTAGE.asked_down_at - BEGIN <= second + 0.5 < OUTAGE.up_at - BEGIN
        for store in range(4):
            taken = (lame_while_down if store == LAME else elsewhere) if is_out else 10
            for place in range(taken):
                order = Order(len(orders))
                at = BEGIN + second + place / max(taken, 1)
                orders.append(Stored(order.order_id, at, store, store))
                waited = (wait_ms if is_out else 5.0) / 1000
                sales[order.order_id] = Sale(order, at, waited, is_first_try=True)
    return Timeline(orders, sales, LAME, OUTAGE)


def test_the_orders_of_the_outage_are_counted_between_the_commands() -> None:
    timeline = story()
    assert timeline.while_down() == 8 * 10 * 3
    assert timeline.lame_while_down() == 0
    assert story(lame_while_down=1).lame_while_down() == 8


def test_healthy_stores_that_go_on_are_said_to_go_on() -> None:
    assert story().rate_title() == (
        "Store 2 was down for 8.0 s and took no orders; the other 3 continued at 100 % of their"
        " previous rate"
    )


def test_healthy_stores_that_suffer_are_said_to_suffer() -> None:
    title = story(elsewhere=4, lame_while_down=1).rate_title()
    assert "took 8 orders" in title
    assert "continued at 40 % of their previous rate" in title


def test_the_wait_is_told_before_and_during_the_outage() -> None:
    assert story(wait_ms=40.0).wait_title() == (
        "Half of the orders for the other stores waited less than 5 ms before the outage, and 40 ms"
        " during it"
    )


def test_an_order_that_was_sent_again_says_nothing_about_the_wait() -> None:
    timeline = story()
    again = {
        name: Sale(sale.order, sale.at, 30.0, is_first_try=False)
        for name, sale in timeline.sales.items()
        if int(sale.at) % 2
    }
    mixed = Timeline(timeline.orders, timeline.sales | again, LAME, OUTAGE)
    assert mixed.wait_title() == timeline.wait_title()


@pytest.mark.parametrize("seconds", [17, 24, 61, 600])
def test_the_bins_fit_the_span_and_lose_no_order(seconds: int) -> None:
    timeline = story(seconds=seconds)
    assert timeline.bin_count <= BINS_MAX + 1
    assert timeline.bin_count * timeline.bin_seconds == pytest.approx(timeline.seconds)
    counted = sum(
        rate * timeline.bin_seconds for store in timeline.stores for rate in timeline.rates(store)
    )
    assert counted == pytest.approx(len(timeline.orders))


def test_an_even_stream_is_drawn_as_one() -> None:
    rates = story(seconds=60).rates(0)
    assert max(rates[1:-1]) <= 1.3 * min(rates[1:-1])


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    draw(story(), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
