"""Work side by side."""

import os
import signal
import threading
import time

import pytest

from tod_bias.systems.lanes import Lanes


def test_what_is_under_way_ends_where_a_piece_of_work_fails():
    done, ends = [], []

    def work(number):
        time.sleep(0.3 if number else 0.1)
        if number == 0:
            raise KeyError("first")
        done.append(number)

    with pytest.raises(KeyError, match="first"):
        Lanes(3, lambda: ends.append(1)).run([lambda n=n: work(n) for n in range(100)])
    assert sorted(done) == [1, 2]
    assert ends == [1]


def test_an_interrupt_waits_for_what_is_under_way():
    # A shell that runs tests in the background ignores the signal, and Python keeps that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []

    def work(number):
        time.sleep(0.2)
        done.append(number)

    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            Lanes(2).run([lambda n=n: work(n) for n in range(100)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(done) == [0, 1]
