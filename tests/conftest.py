"""What holds for all tests: none of them looks at a clock, and signals reach what they start."""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")

# Tests that run in the background, or under nohup, ignore these, and so would every process that they interrupt.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
