"""`partibus serve --cluster` with leases that outlast a machine that is busy with other tests.

The conformance tests are about what clients see, with clients that do not try again. On a machine
with many times more work than cores a node may not run for seconds, loses its lanes, and is right
to. Nothing else differs from `python -m partibus`; the tests of leases use that. Run by
`support.nodes.cluster_server`.
"""

from partibus.control import ownership
from partibus.control.postgres import session

ownership.SERVE_MS = 100_000  # type: ignore[misc]
ownership.LEASE_MS = 120_000  # type: ignore[misc]
session.WORK_MS = 30_000  # type: ignore[misc]

if __name__ == "__main__":
    from partibus.cli.main import main  # what it imports takes the numbers above

    main()
