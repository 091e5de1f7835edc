"""Language models behind a chat API: requests, transport and replies."""
