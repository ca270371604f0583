"""`transport=amqp`: the data source over AMQP 1.0 alone, for any Service Bus.

Everything here keeps to what every bus of this kind offers: links, locks, deferral and the
management node. It never asks over HTTP or Flight, and knows of no claim or cursor of the bus.
"""
