"""What operators see and do: entities, fragments, stores, purge."""
