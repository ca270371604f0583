"""`partibus queue`, `partibus topic` and `partibus subscription`: the groups of verbs.

Owns only their names; the implementation is in `cli.entities.verbs`, once for all kinds. Called by
the table of verbs.
"""

from partibus.cli.entities.verbs import entity_app

queue = entity_app("queue")
topic = entity_app("topic")
subscription = entity_app("subscription")
