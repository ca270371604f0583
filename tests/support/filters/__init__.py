"""SQL filters in tests: a table of them, a second evaluator, random filters and their messages."""
