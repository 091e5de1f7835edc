"""The audit: design counterfactuals, run the system on them, analyse what it put out."""
