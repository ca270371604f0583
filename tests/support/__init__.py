"""What several groups of tests share; importable as `support` from every test."""
