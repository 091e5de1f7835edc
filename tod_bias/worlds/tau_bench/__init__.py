"""τ-bench's worlds (Yao et al. 2024): an airline and a shop, as tools over their databases.

One line of a pipeline file makes one, where ``data/tau_bench`` is the folder of the benchmark's files::

    tools: {stage: "tod_bias.stages:Tools", functions: tod_bias.worlds.tau_bench.airline, data: data/tau_bench/airline}

The tools do what ``tools.json`` says, and put out what models were recorded to get; what they refuse is a text that
begins with ``Error:``, as there.
"""
