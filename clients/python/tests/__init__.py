"""Tests of weirlimit. `python3 -m tests` runs them from clients/python; see __main__.py."""

import logging

logging.getLogger("weirlimit").addHandler(logging.NullHandler())  # warnings are asserted
