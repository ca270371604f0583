"""What every pipeline has: settings, a session, progress, state, an exit code."""
