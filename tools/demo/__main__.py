"""`make demo`: from the first order to the report; ends with 1 if a promise was broken."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from demo.billing import Billing
from demo.bus import STORES, Bus
from demo.figures import Timeline, draw, stored_orders
from demo.lake import BILLING, Lake
from demo.outage import (
    LAME_STORE,
    PHASE_SECONDS,
    SETTLING_SECONDS_MAX,
    Tell,
    Traffic,
    trade,
)
from demo.outcome import Captured, Outcome, Treated
from demo.report import summary, write_page
from pyspark_servicebus.java_runtime import JavaMissing, use_java

PLOT: Final = "orders-by-store.png"
PAGES: Final = [
    ("What the traffic looked like", "traffic/report.html"),
    ("Why orders died, and what became of them", "dead-letters/report.html"),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("demo-report"), help="where the report goes"
    )
    parser.add_argument(
        "--phase",
        type=float,
        default=PHASE_SECONDS,
        metavar="SECONDS",
        help="how long the shop sells before, during and after the outage",
    )
    options = parser.parse_args()
    try:
        use_java()
    except JavaMissing as error:
        print(error, file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partibus-demo-") as directory:
        bus = Bus(Path(directory))
        try:
            return Story(bus, Path(directory), options.output, options.phase).tell()
        finally:
            bus.stop()


class Story:
    """The whole of it, step by step."""

    def __init__(self, bus: Bus, directory: Path, output: Path, phase_seconds: float) -> None:
        self._bus = bus
        self._directory = directory
        self._output = output
        self._phase_seconds = phase_seconds
        self._say = Tell()
        self._began = time.monotonic()

    def tell(self) -> int:
        """Run it; 0 when every promise was kept."""
        seconds = self._bus.start()
        self._say(f"A bus with {STORES} stores was ready after {seconds:.1f} s.")
        self._say(f"Watch it while it runs, in a browser: {self._bus.console_url}")
        self._say(f"Sign in there with {self._bus.connection_string}")
        lake = Lake(self._bus.connection_string, self._directory)
        try:
            outcome = self._play(lake)
        finally:
            lake.close()
        report = write_page(self._output, outcome, PLOT, PAGES)
        print(f"\n{summary(outcome)}\n\nThe report: {report}")
        return 0 if outcome.is_kept else 1

    def _play(self, lake: Lake) -> Outcome:
        lake.capture()
        self._say("Spark is up, and the capture has its cursor: what is settled is kept for it.")
        self._say("A shop and its billing start, with the stock Azure SDK on both sides.")
        billing = Billing(self._bus.connection_string)
        traffic = trade(self._bus, billing, self._phase_seconds, self._say)
        shipped = self._bus.count("orders/Subscriptions/shipping", "active")
        self._say(f"{len(traffic.sales):,} orders sold; {len(traffic.lost)} lost.")
        captured = self._capture(lake, traffic)
        treated = self._treat(lake, billing, traffic)
        return Outcome(traffic, shipped, captured, treated, time.monotonic() - self._began)

    def _capture(self, lake: Lake, traffic: Traffic) -> Captured:
        """Everything that passed through billing, on disk and in figures."""
        captured = lake.capture()
        self._say(f"Captured {captured.rows:,} messages to Parquet in {captured.seconds:.1f} s.")
        frame = lake.captured()
        places = self._bus.places("orders")
        orders = stored_orders(frame, {place.fragment: place.store for place in places})
        timeline = Timeline(orders, traffic.sales, LAME_STORE, traffic.outage)
        draw(timeline, self._output / PLOT)
        finding = lake.analyse(self._output / "traffic").headline()
        self._say(finding)
        return Captured(
            rows=captured.rows,
            orders=frame.select("message_id").distinct().count(),
            timeline=timeline,
            places=places,
            finding=finding,
        )

    def _treat(self, lake: Lake, billing: Billing, traffic: Traffic) -> Treated:
        """The dead letters: why they are there, what the rules do, and what billing books."""
        triage = lake.triage(self._output / "dead-letters")
        self._say(triage.headline())
        self._book_the_rest(billing, traffic)
        done = {rule.action: rule.done for rule in triage.rules}
        return Treated(
            dead_letters=triage.total,
            causes=len(triage.causes),
            sent_again=done["fix"] + done["resubmit"],
            parked=done["park"],
            left=self._bus.count(BILLING, "dead_letter"),
            booked_in_the_end=len(billing.booked),
        )

    def _book_the_rest(self, billing: Billing, traffic: Traffic) -> None:
        """The bookkeeping works again: book what was sent again."""
        billing.is_bookkeeping_up = True
        wanted = {name for name, sale in traffic.sales.items() if not sale.order.is_negative}
        billing.open()
        until = time.monotonic() + SETTLING_SECONDS_MAX
        while not wanted <= billing.booked and time.monotonic() < until:
            time.sleep(0.2)
        billing.close()
        self._say(f"Sent again and booked: {len(billing.booked):,} orders are in the books.")


if __name__ == "__main__":
    sys.exit(main())
