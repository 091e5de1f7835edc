"""What a dialogue is, its text, JSON and chat forms, and the corpora that are read."""
