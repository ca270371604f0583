"""`python -m partibus`: the same command line as `partibus`."""

from partibus.cli.main import main

main()
