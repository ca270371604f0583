"""Messages on the command line: options, printing, sending, receiving."""
