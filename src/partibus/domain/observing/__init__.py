"""What a process counts and reports about itself, from every part of it."""
