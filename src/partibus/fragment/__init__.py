"""One part of an entity: a pure machine, and the broker that makes it durable.

The features are folders: `queue`, `sessions`, `topics`, `outbox`, `transactions`, `claims`,
`cursors` and `stages`, each with its state, commands and behaviour. `machine` joins them by its
tables; `state`, `snapshot`, `records` and `replay` are what is kept of all of them; `broker` runs
machines on a store; `upkeep` is what it does besides commands. A gateway needs `handle`,
`commands`, `ports`, `message` and `spec`.
"""
