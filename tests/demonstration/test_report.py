"""The page of the demo: one set of figures in every place, and broken promises in plain sight."""

import re
from html.parser import HTMLParser

from demo.bus import Place
from demo.outage import LAME_STORE, Traffic
from demo.outcome import Captured, Outcome, Treated
from demo.report import page, summary, system_of

from demonstration.test_figures import OUTAGE, story


def outcome(*, lost: int = 0) -> Outcome:
    timeline = story()
    names = sorted(timeline.sales)
    rejected, stuck = set(names[:6]), set(names[6:10])
    traffic = Traffic(
        sales=timeline.sales,
        refused_sends=12,
        booked=set(names[10 + lost :]),
        rejected=rejected,
        stuck=stuck,
        outage=OUTAGE,
    )
    express = sum(sale.order.is_express for sale in timeline.sales.values())
    captured = Captured(
        rows=len(names),
        orders=len(names),
        timeline=timeline,
        places=[Place(fragment, fragment, 0) for fragment in range(4)],
        finding="found",
    )
    treated = Treated(
        dead_letters=10,
        causes=3,
        sent_again=8,
        parked=2,
        left=0,
        booked_in_the_end=len(names) - 2,
    )
    return Outcome(traffic, express, captured, treated, 60.0)


class Texts(HTMLParser):
    """The tags of a page, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_same_figures_are_everywhere() -> None:
    told = outcome()
    shown = " ".join(Texts(page(told, "", [])).texts)
    total = f"{len(told.traffic.sales):,}"
    while_down = f"{told.captured.timeline.while_down():,} orders were stored meanwhile"
    for text in (f"{total} orders, one outage", f"{total} rows", f"= {total} orders", while_down):
        assert text in shown
    assert while_down in summary(told)
    assert shown.count("8.0") == 2, "the outage has one length"
    system = system_of(told)
    assert sum(fragment.orders for fragment in system.fragments) == len(told.traffic.sales)


def test_the_picture_shows_every_fragment_store_and_worker() -> None:
    parsed = Texts(page(outcome(), "", []))
    assert "svg" in parsed.tags
    for store in range(4):
        name = f"store {store}" + (", went down" if store == LAME_STORE else "")
        assert name in parsed.texts
    assert "the bus, worker 0" in parsed.texts
    assert "topic orders, 4 fragments" in parsed.texts


def test_the_page_needs_no_other_file() -> None:
    text = page(outcome(), "UE5H", [("more", "traffic/report.html")])
    assert re.findall(r'(?:src|href)="([^"]+)"', text) == [
        "data:image/png;base64,UE5H",
        "traffic/report.html",
    ]


def test_a_broken_promise_is_shown_as_such() -> None:
    broken = outcome(lost=1)
    assert not broken.is_kept
    assert "A PROMISE WAS BROKEN" in summary(broken)
    assert 'class="mark broken"' in page(broken, "", [])
    assert "1 lost</h1>" in page(broken, "", [])
