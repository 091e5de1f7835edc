"""Changes that remove a gap: guards, missing rows, training on counterfactuals; and the search for the smallest."""
