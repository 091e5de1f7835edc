"""``python -m tod_bias.attribute``: the same as ``tod-bias attribute``."""

import sys

if __name__ == "__main__":
    from tod_bias.cli.process import run

    run(["attribute", *sys.argv[1:]])
elif __name__ == "tod_bias.attribute":
    # An import would put this module in the place of the function of this name, in the whole process. Processes that a
    # command starts run this file under another name, and pass.
    raise ImportError("tod_bias.attribute is a function: from tod_bias import attribute", name=__name__)
