"""One node: catalog, stores, brokers, fragments and gateway, wired together.

Owns the order in which they come up and go down, and the way from an entity of the catalog
to running fragments. It opens no port, which is the service's work, and decides nothing
about messages.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from partibus.amqp.settings import ConnectionSettings
from partibus.control.access import AccessControl
from partibus.control.apply import apply_definitions
from partibus.control.catalog import Catalog
from partibus.control.definitions import Definitions
from partibus.control.policies import ROOT_POLICY_NAME, ensure_root_policy
from partibus.control.record import Change, EntityRecord
from partibus.domain.clock import Clock
from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.entity import EntityKind, QueueSpec
from partibus.domain.errors import ConfigError
from partibus.domain.limits import Profile
from partibus.fragment.broker import Broker
from partibus.fragment.handle import LocalFragment
from partibus.fragment.machine import Machine
from partibus.fragment.spec import FragmentSpec
from partibus.gateway.gateway import Gateway
from partibus.gateway.namespace import Namespace, unsupported
from partibus.server.config import ServeSettings
from partibus.server.control_hub import ControlHub
from partibus.server.scheduler import LoopScheduler
from partibus.store.interface import Notify, Store, StoreState
from partibus.store.log import SegmentStore
from partibus.store.memory import MemoryStore

EXIT_INTERNAL: Final = 70
"""EX_SOFTWARE of sysexits."""
MEGABYTE: Final = 1024 * 1024
IDLE_POLL_S: Final = 0.005
"""How often a stopping node looks whether its brokers have come to rest."""
FLUSH_S_MAX: Final = 30.0
"""A store that does not answer by then is closed with what it has."""

_log: Final = logging.getLogger(__name__)


class Node:
    """Everything behind the ports."""

    def __init__(
        self, settings: ServeSettings, clock: Clock, definitions: Definitions | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._definitions = definitions
        self._brokers: list[Broker] = []
        self._machines: dict[int, Machine] = {}
        self.control = ControlHub()
        """Where administrative questions are asked and answered."""
        self.gateway: Gateway
        self.catalog: Catalog

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the catalog and the stores, and bring every fragment up."""
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        self._refuse_what_is_not_offered()
        self.catalog = self._open_catalog()
        for store in self._make_stores(scheduler.call_from_thread):
            broker = Broker(store, self._clock, scheduler, stop_at_once)
            broker.open()
            self._brokers.append(broker)
        namespace = Namespace(self.catalog)
        for record in self.catalog.entities(EntityKind.QUEUE):
            self._serve(record, namespace)
        for broker in self._brokers:
            broker.forget_strangers()
        self.catalog.subscribe(lambda change: self._changed(change, namespace))
        self.gateway = Gateway(
            namespace,
            AccessControl(self.catalog),
            self._clock,
            scheduler,
            ConnectionSettings(container_id="partibus"),
        )
        self.gateway.start()

    async def stop(self) -> None:
        """Tell the clients, make everything durable, close."""
        self.gateway.close()
        waited_s = 0.0
        while waited_s < FLUSH_S_MAX and any(not broker.is_at_rest for broker in self._brokers):
            await asyncio.sleep(IDLE_POLL_S)
            waited_s += IDLE_POLL_S
        for broker in self._brokers:
            broker.close()
        self.catalog.close()

    def health(self) -> tuple[bool, str]:
        """Whether the node does its work, and in a sentence why not."""
        down = [i for i, b in enumerate(self._brokers) if b.store.state is StoreState.DOWN]
        if down:
            return False, f"Store {', '.join(map(str, down))} is down; it is being probed."
        damaged = sum(broker.damaged_count for broker in self._brokers)
        if damaged:
            return False, f"{damaged} stored messages failed their checksum; see the log."
        return True, "Service is healthy."

    def connection_string(self, host: str, port: int) -> str:
        """What a client pastes to reach this node."""
        policy = self.catalog.policy("", ROOT_POLICY_NAME)
        assert policy is not None
        return (
            f"Endpoint=sb://{host}:{port};SharedAccessKeyName={policy.name};"
            f"SharedAccessKey={policy.primary_key};UseDevelopmentEmulator=true;"
        )

    # --- parts ----------------------------------------------------------------------------

    def _refuse_what_is_not_offered(self) -> None:
        if self._settings.workers > 1:
            raise ConfigError("--workers: this version runs all fragments in one process; use 1.")
        for place in self._settings.store_places:
            if "://" in place:
                raise ConfigError(f"--store {place}: this version keeps stores in directories.")

    def _open_catalog(self) -> Catalog:
        settings = self._settings
        file = None
        if not settings.memory:
            settings.data.mkdir(parents=True, exist_ok=True)
            file = settings.data / "catalog.db"
        catalog = Catalog(file, profile=settings.profile, stores=settings.stores, clock=self._clock)
        declared = self._definitions is not None and self._definitions.declares_root_policy
        if self._definitions is not None:
            apply_definitions(catalog, self._definitions)
        root = ensure_root_policy(catalog, loopback_only=settings.loopback_only, declared=declared)
        if root.shown_key is not None:
            _log.warning("new key of %s, shown once: %s", ROOT_POLICY_NAME, root.shown_key)
        for record in catalog.entities():
            reason = unsupported(record)
            if reason is not None:
                _log.warning("'%s' %s and cannot be used in this version", record.path, reason)
        return catalog

    def _make_stores(self, notify: Notify) -> list[Store]:
        settings = self._settings
        if settings.memory:
            return [MemoryStore(notify=notify) for _ in range(settings.stores)]
        places = [Path(place) for place in settings.store_places] or [
            settings.data / f"store-{number}" for number in range(settings.stores)
        ]
        return [SegmentStore(place, notify=notify) for place in places]

    def _serve(self, record: EntityRecord, namespace: Namespace) -> None:
        """Bring the fragments of an entity up where they are placed."""
        spec = fragment_spec(record, self._settings.profile)
        for index, placement in enumerate(record.fragments):
            broker = self._brokers[placement.store]
            machine = broker.add(placement.fragment_id, spec)
            self._machines[placement.fragment_id] = machine
            namespace.put_fragment(LocalFragment(broker, machine, index))

    def _changed(self, change: Change, namespace: Namespace) -> None:
        """Follow the catalog's change feed."""
        if change.before is None and change.after is not None:
            if change.after.kind is EntityKind.QUEUE:
                self._serve(change.after, namespace)
        elif change.after is not None and change.after.kind is EntityKind.QUEUE:
            spec = fragment_spec(change.after, self._settings.profile)
            for placement in change.after.fragments:
                self._machines[placement.fragment_id].state.spec = spec


def stop_at_once(error: Exception) -> None:
    """A machine failed in a way we did not foresee: what is durable is right, memory may not be.

    Nothing more is acknowledged or written; the next start recovers from the log.
    """
    _log.critical("internal error, stopping at once; what is stored is safe", exc_info=error)
    os._exit(EXIT_INTERNAL)


def fragment_spec(record: EntityRecord, profile: Profile) -> FragmentSpec:
    """What the fragments of a queue must know of it."""
    spec = record.spec
    assert isinstance(spec, QueueSpec)
    size_bytes_max = spec.max_size_in_megabytes * MEGABYTE
    if not profile.size_is_per_fragment:
        size_bytes_max //= len(record.fragments)
    ttl_ms = spec.default_message_time_to_live_ms
    return FragmentSpec(
        lock_duration_ms=spec.lock_duration_ms,
        max_delivery_count=spec.max_delivery_count,
        default_ttl_ms=0 if ttl_ms >= DURATION_MAX_MS else ttl_ms,
        dead_letter_on_expiry=spec.dead_lettering_on_message_expiration,
        size_bytes_max=size_bytes_max,
        path=record.path,
    )
