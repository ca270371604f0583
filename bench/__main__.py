"""`python -m bench`: run the scenarios, print the table, write the file.

Owns the command line and the order: repeats outside, servers inside, so that a disturbance
of the machine falls on all of them alike. Everything lies in a temporary directory below
build/, on a real disk, since the numbers include fsync.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench import micro, rabbit, report, rules
from bench.bus import Bus
from bench.peers import Peer
from bench.scenarios import SCENARIOS, Scenario, measure, measure_backlog


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=100_000, metavar="N", help="in each load (%(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--queued",
        type=int,
        default=200_000,
        metavar="N",
        help="in the backlog (%(default)s); 0: none",
    )
    parser.add_argument("--only", metavar="TEXT", help="scenarios with this in their name")
    parser.add_argument("--alone", action="store_true", help="without RabbitMQ")
    parser.add_argument("--quick", action="store_true", help="small and once: does it run?")
    parser.add_argument("--micro", action="store_true", help="the hot functions, in-process")
    parser.add_argument("--rules", action="store_true", help="filters and actions, in-process")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(bench/results/DATE.json)")
    parser.add_argument(
        "--directory", type=Path, default=Path("build"), help="where data goes (%(default)s)"
    )
    options = parser.parse_args()
    if options.quick:
        options.messages, options.repeats, options.queued = 5_000, 1, 5_000
    return options


def peer_makers(alone: bool) -> list[Callable[[Path], Peer]]:
    makers: list[Callable[[Path], Peer]] = [lambda directory: Bus(directory / "partibus")]
    script = rabbit.find_script()
    if alone:
        return makers
    if script is None:
        print(f"RabbitMQ is not installed, so there is no yardstick; {rabbit.INSTALL_COMMAND}")
        return makers
    found = script
    return [*makers, lambda directory: rabbit.Rabbit(directory / "rabbitmq", found)]


def run_loads(
    peers: list[Peer], scenarios: list[Scenario], options: argparse.Namespace, out: report.Results
) -> None:
    with ExitStack() as stack:
        for peer in peers:
            stack.callback(peer.stop)
            peer.start()
        for peer in peers:
            # Not counted: caches fill, code warms up.
            for scenario in scenarios:
                measure(scenario, peer, max(1, options.messages // 20))
        for repeat in range(options.repeats):
            for scenario in scenarios:
                print(f"repeat {repeat + 1} of {options.repeats}: {scenario.name}", file=sys.stderr)
                for peer in peers:
                    out.add(scenario.name, peer.name, measure(scenario, peer, options.messages))


def chosen(text: str | None) -> list[Scenario]:
    """A receiver needs what its sender has sent, so both come along."""
    if text is None:
        return list(SCENARIOS)
    subjects = {scenario.name.partition(" ")[2] for scenario in SCENARIOS if text in scenario.name}
    return [scenario for scenario in SCENARIOS if scenario.name.partition(" ")[2] in subjects]


def main() -> None:
    options = arguments()
    if options.micro:
        micro.main()
        return
    if options.rules:
        rules.main()
        return
    options.directory.mkdir(parents=True, exist_ok=True)
    results = report.Results()
    scenarios = chosen(options.only)
    names: dict[str, str] = {}
    makers = peer_makers(options.alone)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as root:
        peers = [make(Path(root, "loads")) for make in makers]
        names.update({peer.name: peer.version for peer in peers})
        run_loads(peers, scenarios, options, results)
        if options.queued and options.only is None:
            for make in makers:
                peer = make(Path(root, "backlog"))
                print(f"backlog: {peer.name}", file=sys.stderr)
                try:
                    for name, numbers in measure_backlog(peer, options.queued).items():
                        results.add(name, peer.name, numbers)
                finally:
                    peer.stop()
    for line in results.lines(list(names)):
        print(line)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path = options.out or Path("bench", "results", f"{stamp}.json")
    report.write(path, names, options.messages, results)
    print("; ".join(f"{name}: {version}" for name, version in names.items()))
    print(f"commit {report.commit()}, written to {path}")


if __name__ == "__main__":
    main()
