"""All targets, by name."""

from typing import Final

from fuzz.target import Target
from fuzz.targets import configuration, http, messages, peers, rules, stored, wire

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (wire, messages, rules, http, configuration, stored, peers)
    for target in module.TARGETS
}
