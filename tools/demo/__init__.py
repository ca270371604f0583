"""The story that `make demo` tells: orders, an outage, and what Spark makes of it afterwards.

Everything runs on this machine and through the public interfaces of the product: the stock SDK
sends and receives, `partibus fault` breaks a store, and the ready-made pipelines do the rest. Every
figure in the report is measured in the run that prints it.
"""
