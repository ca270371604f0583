"""What this process answers to operators, whichever worker they are connected to.

Owns the list of services that answer for one process; each registers its own questions. Called
once, by the node.
"""

from collections.abc import Mapping

from partibus.cluster.control_hub import ControlHub
from partibus.control.catalog.catalog import Catalog
from partibus.fragment.broker import Broker
from partibus.fragment.machine import Machine
from partibus.gateway.gateway import Gateway
from partibus.server.operators.changed_fragments import ChangedFragments, ChangeNumbers
from partibus.server.operators.connections import OwnConnections
from partibus.server.operators.events import OwnEvents
from partibus.server.operators.inspection import Inspection
from partibus.server.operators.live_sample import LiveSample
from partibus.server.operators.log_level import LOG_LEVEL, answer_log_level
from partibus.server.operators.signals import OwnSignals


def register_services(
    gateway: Gateway,
    brokers: Mapping[int, Broker],
    machines: Mapping[int, Machine],
    catalog: Catalog,
    control: ControlHub,
) -> None:
    """Register all questions of this process."""
    numbers = ChangeNumbers(machines, gateway.monotonic_ms)
    inspection = Inspection(brokers, machines)
    inspection.register(control)
    OwnConnections(gateway, control.worker).register(control)
    OwnEvents(brokers, machines, ChangedFragments(numbers)).register(control)
    control.register(LOG_LEVEL, answer_log_level)
    signals = OwnSignals(gateway, brokers, machines, inspection, ChangedFragments(numbers))
    signals.register(control)
    LiveSample(brokers, machines, catalog, gateway, numbers).register(control)
