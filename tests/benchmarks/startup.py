"""How long a command takes until it says something: the fastest of some runs, each in a process of its own.

    python tests/benchmarks/startup.py [RUNS]

Exit code 1 if one is slower than its limit. The limits hold on an idle core.
"""

import subprocess
import sys
import time

LIMITS = {
    "import tod_bias": (0.15, ["-c", "import tod_bias"]),
    "tod-bias --help": (0.3, ["-m", "tod_bias", "--help"]),
    "tod-bias attribute --help": (0.4, ["-m", "tod_bias", "attribute", "--help"]),
    "tod-bias attribute --margin -1": (0.5, ["-m", "tod_bias", "attribute", "--margin", "-1"]),
    "tod-bias attribute --axes nobody": (0.5, ["-m", "tod_bias", "attribute", "--axes", "nobody"]),
}
"""Command to its limit in seconds, and the arguments of Python."""


def fastest(arguments: list[str], runs: int) -> float:
    """Return the shortest wall-clock time in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    slow = 0
    for name, (limit, arguments) in LIMITS.items():
        seconds = fastest(arguments, runs)
        slow += seconds > limit
        print(f"{name:<36} {seconds:5.2f} s   limit {limit:.2f} s{'   SLOW' if seconds > limit else ''}")
    return min(slow, 1)


if __name__ == "__main__":
    sys.exit(main())
