"""What looking at a server costs it: scrapes, pages and open consoles."""
