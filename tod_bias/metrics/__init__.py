"""What a response and a call are worth."""
