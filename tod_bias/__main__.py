"""``python -m tod_bias``: the same as ``tod-bias``."""

from tod_bias.cli import main

if __name__ == "__main__":
    main()
