"""A connection as operators see it: who it is, what it may do, and what its links are doing.

Owns the JSON form of that report and the choice of what is shown: names of policies and subjects of
tokens, must never contain a key. It reads what the gateway keeps anyway and changes nothing. Called
by `server.operators.connections`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from partibus.amqp.codec.text import text_of
from partibus.amqp.link import Link
from partibus.control.access.grant import Grant
from partibus.domain.address import path_key
from partibus.domain.rights import names_of_rights
from partibus.gateway.links.attach import LinkOwner
from partibus.gateway.links.inbound import InboundLink
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.session import SessionLink
from partibus.gateway.origin import Sample
from partibus.gateway.requests import RequestLink, ResponseLink

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

TEXT_LENGTH_MAX: Final = 256
"""Length limit for what a client says about itself."""
Report = dict[str, Any]


def report_connection(connection: "ClientConnection", links_max: int) -> Report:
    """One connection with up to `links_max` of its links."""
    origin, engine = connection.origin, connection.engine
    frame = engine.remote_open
    reported = {} if frame is None else frame.properties
    links = _links(connection)
    of_senders = [link for link in links if link["role"] == "sender"]
    of_receivers = [link for link in links if link["role"] == "receiver"]
    return {
        "number": origin.number,
        "peer": origin.peer,
        "transport": origin.transport,
        "secure": origin.secure,
        "state": _state(connection),
        "opened_ms": origin.opened_ms,
        "host": connection.host,
        "container_id": "" if frame is None else frame.container_id[:TEXT_LENGTH_MAX],
        "client": {
            "product": _said(reported, "product"),
            "version": _said(reported, "version"),
            "platform": _said(reported, "platform") or _said(reported, "framework"),
            "user_agent": _said(reported, "user-agent"),
        },
        "identities": [_identity(grant) for grant in connection.grants.held],
        "session_count": len(engine.sessions),
        "link_count": len(links),
        "received": sum(link["messages"] for link in of_senders),
        "delivered": sum(link["messages"] for link in of_receivers),
        "received_per_s": round(sum(link["per_s"] for link in of_senders), 1),
        "delivered_per_s": round(sum(link["per_s"] for link in of_receivers), 1),
        "unsettled": sum(link["unsettled"] for link in links),
        "links": links[:links_max],
    }


def uses(connection: "ClientConnection", entity: str) -> bool:
    """Whether one of its links is to this entity, or to a part of it such as its dead letters."""
    wanted = path_key(entity)
    paths = [path_key(_path(owner)) for _, owner in connection.links]
    return any(path == wanted or path.startswith(f"{wanted}/") for path in paths)


def _state(connection: "ClientConnection") -> str:
    if connection.engine.closing:
        return "closing"
    return "opening" if connection.engine.remote_open is None else "open"


def _said(properties: Mapping[str, object], name: str) -> str:
    value = properties.get(name)
    text = text_of(value)
    if text is None and isinstance(value, int | float):
        text = str(value)
    return (text or "")[:TEXT_LENGTH_MAX]


def _identity(grant: Grant) -> Report:
    return {
        "policy": grant.policy,
        "policy_entity": grant.policy_scope,
        "subject": grant.subject,
        "audience": grant.audience,
        "rights": names_of_rights(grant.rights),
        "expires_ms": grant.expires_ms,
    }


def _links(connection: "ClientConnection") -> list[Report]:
    now_ms = connection.gateway.now_ms()
    unsettled: Counter[Link] = Counter()
    for session in connection.engine.sessions.values():
        unsettled.update(d.link for d in session.outgoing.unsettled.values())
    names = {link: session_id for (_, session_id), link in connection.held_sessions.items()}
    owners = connection.links
    samples = connection.origin.samples
    for gone in samples.keys() - {owner for _, owner in owners}:
        del samples[gone]
    reports = []
    for link, owner in owners:
        sample = samples.get(owner)
        if sample is None:
            sample = samples[owner] = Sample(connection.origin.opened_ms)
        messages = _messages(owner)
        waiting = owner.unconfirmed_count if isinstance(owner, InboundLink) else unsettled[link]
        reports.append(
            {
                "name": link.name[:TEXT_LENGTH_MAX],
                "role": _role(owner),
                "entity": _path(owner),
                "session_id": names.get(owner) if isinstance(owner, SessionLink) else None,
                "credit": link.credit,
                "unsettled": waiting,
                "messages": messages,
                "per_s": sample.read(messages, now_ms),
            }
        )
    return reports


def _messages(owner: LinkOwner) -> int:
    return owner.message_count if isinstance(owner, InboundLink | OutboundLink) else 0


def _role(owner: LinkOwner) -> str:
    """What the client does on the link."""
    if isinstance(owner, InboundLink):
        return "sender"
    if isinstance(owner, OutboundLink):
        return "receiver"
    if isinstance(owner, RequestLink):
        return "request"
    return "response" if isinstance(owner, ResponseLink) else "coordinator"


def _path(owner: LinkOwner) -> str:
    if isinstance(owner, InboundLink | OutboundLink):
        return owner.path
    return owner.node.path if isinstance(owner, RequestLink | ResponseLink) else ""
