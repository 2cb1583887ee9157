"""Runs the tests, and prints one object of JSON for each. The test of Go in clients/stand reads it.

    PYTHONPATH=src python3 -m tests [NAME …]

NAME is that of a module, such as test_client, or of a test in it.
"""

import json
import sys
import unittest


class Lines(unittest.TextTestResult):
    """Prints a line for each test."""

    def line(self, test, outcome, text=""):
        _, _, name = test.id().split(".", 2)  # tests.MODULE.CLASS.test
        line = {"test": name, "outcome": outcome, "text": text}
        print(json.dumps(line), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line(test, "failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.line(test, "failed", self.errors[-1][1])


loader = unittest.defaultTestLoader
if sys.argv[1:]:
    suite = loader.loadTestsFromNames(f"tests.{name}" for name in sys.argv[1:])
else:
    suite = loader.discover("tests", top_level_dir=".")
runner = unittest.TextTestRunner(resultclass=Lines, warnings="error", stream=sys.stderr)
sys.exit(not runner.run(suite).wasSuccessful())
