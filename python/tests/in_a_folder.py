"""What the tests of this folder share: each test has a folder of its own."""
import os
import signal
import subprocess
import tempfile
import unittest

# What a shell runs in the background ignores Ctrl-C, and so would everything that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROGRAM = os.environ.get("LUCID_PROGRAM", "lucid")


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def at(self, name):
        return os.path.join(self.folder, name)

    def program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True,
                              cwd=self.folder)
