"""``import tod_bias`` changes nothing in the process."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, json, os, signal, sys, threading

def state():
    handlers = {number.name: str(signal.getsignal(number)) for number in signal.Signals}
    collector = [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()]
    return [dict(os.environ), handlers, collector, threading.active_count()]

sys.argv[0] = "tod-bias"  # as in the installed command
before = state()
import tod_bias
tod_bias.attribute, tod_bias.load_pipeline, tod_bias.Pipeline, tod_bias.AuditResult
print(json.dumps([before, state()]))
"""


def test_the_import_changes_no_environment_no_signal_handler_and_no_collector_setting():
    given = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=given, cwd=Path(__file__).parent.parent, capture_output=True, check=True
    )
    before, after = json.loads(done.stdout)
    assert after == before
