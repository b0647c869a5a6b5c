"""What holds for all tests: none of them looks at a clock, hypothesis included."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")
