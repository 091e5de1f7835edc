"""One module per command: its options, its help, and what is refused before anything is loaded."""
