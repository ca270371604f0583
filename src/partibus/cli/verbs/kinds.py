"""`partibus queue`, `partibus topic` and `partibus subscription`: the groups of verbs.

Owns nothing but their names; what they do is in `cli.entity_verbs`, once for all kinds.
Called by the table of verbs.
"""

from partibus.cli.entity_verbs import entity_app

queue = entity_app("queue")
topic = entity_app("topic")
subscription = entity_app("subscription")
