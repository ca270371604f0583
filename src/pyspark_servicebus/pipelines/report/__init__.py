"""How the reports of pipelines look: pages, charts, tables, numbers."""
