"""A store in a PostgreSQL database: the same contract as the store in a directory.

A *lane* is one log with its fragments and one writer. The lane's row holds its epoch and its tail;
entries are rows of tables that are dropped whole when nothing in them is needed any more.
"""
