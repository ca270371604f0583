"""A sans-IO AMQP 1.0 engine: bytes in, events out; it knows no broker."""
