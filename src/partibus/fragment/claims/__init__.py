"""Claims: a pipeline holds messages under a name, with a time limit."""
