class MatchedPlacebo:
    axis = "placebo"
    attributes = ("original", "placebo")
    signature = "stub"

    def __init__(self):
        from tod_bias.perturb.algorithm import load_perturber

        self.p = load_perturber("placebo")

    def match(self, dialogue, rewrites, seed):
        from tod_bias.perturb.crossed import crossed_candidates

        c = crossed_candidates(self.p, dialogue, seed)
        return self.p.rewrite(dialogue, c[0]) if c else None
