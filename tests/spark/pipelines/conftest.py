"""Pipelines run in the shared session, against the shared bus, into folders of their own."""

from support.groups import absent_groups

collect_ignore_glob = ["test_*.py"] if "spark" in absent_groups() else []
