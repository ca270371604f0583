"""The AMQP engine in tests: values of every type, engines without sockets, ids of messages."""
