"""Engine events to fragment commands and back: links, tokens, routing."""
