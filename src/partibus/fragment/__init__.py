"""One part of an entity: a pure machine, and the runner that makes it durable."""
