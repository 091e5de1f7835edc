"""``python -m tod_bias``: the same as ``tod-bias``."""

from tod_bias.cli.application import main

main()
