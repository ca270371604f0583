"""Nothing here can be imported without PySpark and Arrow; the group says what is left out."""

from support.groups import absent_groups

collect_ignore_glob = ["test_*.py", "*/test_*.py"] if "spark" in absent_groups() else []
