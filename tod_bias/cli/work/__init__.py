"""What commands do with their options.

A command imports its modules of this package when it is run, those that load heavy libraries last: ``--help`` and
messages about wrong input do without them.
"""
