"""Language models behind a chat API: what is sent, how it is asked for, what comes back."""
