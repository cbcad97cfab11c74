"""What the tests of this folder share: each test has a folder of its own."""
import os
import subprocess
import tempfile
import unittest

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
