"""Work on messages that is the same for the command line and for the console."""
