"""The catalog: entities, fragments and policies, in SQLite or shared with PostgreSQL's."""
