"""AMQP values and sections, from bytes and to bytes; it knows no frames."""
