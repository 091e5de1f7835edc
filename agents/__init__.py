"""ParlAI agents and teachers of tod-bias, and any ParlAI agent as a stage."""
