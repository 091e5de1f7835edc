"""``python -m tod_bias.attribute``: the same as ``tod-bias attribute``."""

import sys

if __name__ == "__main__":
    from tod_bias.cli.process import run

    run(["attribute", *sys.argv[1:]])
else:
    # ``import tod_bias.attribute`` must not put this module in the place of the function ``tod_bias.attribute``.
    from tod_bias.audit.analysis import attribute

    sys.modules[__name__] = attribute  # type: ignore[assignment]
