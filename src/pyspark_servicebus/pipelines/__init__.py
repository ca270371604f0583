"""Ready-made pipelines between a bus, a lake and another bus, each a function over a session.

A pipeline takes a SparkSession and its settings, and returns a report; it makes no session itself
and prints nothing. The command line (`partibus pipeline`), the scripts for spark-submit and
declared pipelines all call the same functions.
"""
