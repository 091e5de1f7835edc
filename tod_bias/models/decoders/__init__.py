"""Back ends that decode batches of prompts."""
