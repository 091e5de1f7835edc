"""What an audit would save that looks after every block of terms and stops once a gap is shown, at any time validly.

    python tests/benchmarks/stopping.py

Terms come in blocks, and after each block an e-process decides: the likelihood ratio of the t statistic between no
effect and a normal prior of the planted effect (Lai 1976; Wang and Ramdas 2023). Without an effect it exceeds 20 in at
most .05 of all audits, however often one looks. The prior is given the planted effect, which no user knows, so what is
saved here is the most. The fixed design tests once, with all terms.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import optimize, stats

LOOKS = 6


def e_process(values: np.ndarray, scale: float) -> np.ndarray:
    """(runs, terms) evidence against a mean of 0 after each term."""
    number = np.arange(1, values.shape[1] + 1)
    mean = np.cumsum(values, axis=1) / number
    freedom = np.maximum(number - 1, 1)
    variance = (np.cumsum(values**2, axis=1) - number * mean**2) / freedom
    wide = 1 + number * scale
    with np.errstate(invalid="ignore", divide="ignore"):
        squared = number * mean**2 / variance / freedom
        evidence = wide**-0.5 * ((1 + squared) / (1 + squared / wide)) ** (number / 2)
    evidence[:, :3] = 0.0
    return np.asarray(np.nan_to_num(evidence))


def planted(terms: int) -> float:
    """The effect, in standard deviations of one term's, that a t test of all terms finds in four of five."""
    critical = stats.t.ppf(0.975, terms - 1)

    def lacking(effect: float) -> float:
        return float(1 - stats.nct.cdf(critical, terms - 1, effect * np.sqrt(terms)) - 0.8)

    return float(optimize.brentq(lacking, 0.01, 5))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("| terms | effect, times the planted one | fixed design finds | looking finds | terms used |")
    print("|---|---|---|---|---|")
    for terms in (12, 20, 40):
        effect = planted(terms)
        for times in (0.0, 1.0, 1.5, 2.0):
            values = rng.normal(times * effect, 1, (options.runs, terms))
            fixed = np.abs(stats.ttest_1samp(values, 0, axis=1).statistic) > stats.t.ppf(0.975, terms - 1)
            looks = np.unique(np.linspace(4, terms, LOOKS).astype(int))
            shown = e_process(values, effect**2)[:, looks - 1] >= 20
            used = np.where(shown.any(axis=1), looks[shown.argmax(axis=1)], terms)
            found = shown.any(axis=1).mean()
            print(f"| {terms} | {times:g} | {fixed.mean():.3f} | {found:.3f} | {used.mean() / terms:.2f} |")


if __name__ == "__main__":
    main()
