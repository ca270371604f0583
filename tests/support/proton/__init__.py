"""Generic clients on Qpid Proton: the protocol, tokens on `$cbs`, and transactions."""
