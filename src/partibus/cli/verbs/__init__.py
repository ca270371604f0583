"""The verbs of the command line, one file each; a verb imports what it needs when it runs."""
