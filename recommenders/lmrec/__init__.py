"""LMRec, a conversational recommender driven by a language model, its audit and its mitigation (Shen 2022, 2023)."""
