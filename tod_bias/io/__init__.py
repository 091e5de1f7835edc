"""The border: everything untrusted is read here, and everything that lasts is written here."""
