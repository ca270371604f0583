"""Names of entities: their length and characters (ENT-6, ENT-7).

Owns the check of queue, topic and subscription names. The catalog checks whether a name is free. A
refusal is a `PropertyRefused` of the property `name`.
"""

import re
from typing import Final

from partibus.domain import limits
from partibus.domain.limits import Profile
from partibus.domain.refusal import PropertyRefused

_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~-]+")
_OF_CLIENT: Final = re.compile(r"(?P<name>[^$]+)\$(?P<client_id>[A-Za-z0-9._~:-]*)\$N?D")
_EDGE: Final = re.compile(r"[A-Za-z0-9]")


def admit_path(path: str, profile: Profile) -> None:
    """Refuse a queue or topic path that violates ENT-6 or ENT-7."""
    _admit_name(path, limits.ENTITY_PATH_LENGTH_MAX, profile)
    segments = path.split("/")
    if any(not segment for segment in segments):
        raise PropertyRefused("name", f"'{path}' has an empty segment between slashes.")
    if any(segment in (".", "..") for segment in segments):
        # HTTP clients normalise such segments, which would address another entity.
        raise PropertyRefused("name", f"'{path}' has a segment of only dots.")
    if "subscriptions" in path.lower().split("/")[1:]:
        raise PropertyRefused(
            "name", f"'{path}' would be read as the path of a subscription; leave out that segment."
        )


def admit_subscription_name(name: str, profile: Profile) -> None:
    """Refuse a subscription name that violates ENT-6 or ENT-7; that of a JMS client has its own
    form, which includes the client's id (JMS-3)."""
    of_client = _OF_CLIENT.fullmatch(name)
    if of_client is not None:
        client_id = of_client["client_id"]
        if len(client_id) > limits.SUBSCRIPTION_NAME_LENGTH_MAX:
            raise PropertyRefused("name", f"The client id '{client_id}' is too long.")
        name = of_client["name"]
    _admit_name(name, limits.SUBSCRIPTION_NAME_LENGTH_MAX, profile)
    if "/" in name:
        raise PropertyRefused(
            "name", f"'{name}' contains a slash; the name of a subscription has one segment."
        )


def _admit_name(name: str, length_max: int, profile: Profile) -> None:
    if not 1 <= len(name) <= length_max:
        raise PropertyRefused("name", f"1 to {length_max} characters are allowed, not {len(name)}.")
    if not (_EDGE.fullmatch(name[0]) and _EDGE.fullmatch(name[-1])):
        raise PropertyRefused("name", f"'{name}' must begin and end with a letter or digit.")
    segments = [segment for segment in name.split("/") if segment]
    has_bad = any(not _SEGMENT.fullmatch(segment) for segment in segments)
    if has_bad or ("~" in name and not profile.has_tilde_in_names):
        raise PropertyRefused(
            "name", f"'{name}' may contain letters, digits, '.', '-', '_' and '/' between segments."
        )
