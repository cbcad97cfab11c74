"""The type stubs against the module. Skipped where mypy is missing (Debian's package mypy)."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import lucid

MYPY = "/usr/bin/python3" if os.path.exists("/usr/bin/mypy") else ""

# What a user writes, and what a type checker has to find in it.
RIGHT = """
import lucid
import numpy as np

data = lucid.Dataset("people")
made = lucid.train(data, "run", arch="2x50", preset="clipped", epochs=3, seed=1, progress=True)
certificate = lucid.bound("run", time_limit=60, domain="schema")
right = float(np.mean(lucid.Guard("run").predict(data.test_x) == data.test_y))
model = lucid.LucidClassifier(promise="labels+full", guard="auto").fit([[0.5]], [1])
path: str = lucid.report("run")
with lucid.serve("run", guard="exact", latency_floor=0.02) as server:
    url: str = server.url
lucid.fit("people.csv", "result", "run", missing="fill", promise="both")
"""
WRONG = {
    'lucid.train("people", "run", epohcs=3)': "epohcs",
    'lucid.fit("people.csv", "result", "run", missing="guess")': "missing",
    'lucid.Guard("run", guard="best")': "guard",
    'x: int = lucid.report("run")': "Incompatible types",
}


@unittest.skipUnless(MYPY, "mypy is not installed: the stubs are not compared with the module")
class Stubs(unittest.TestCase):
    def setUp(self):
        # The package as it is installed, beside nothing else.
        package = pathlib.Path(lucid.__file__).resolve().parent
        self.environment = dict(os.environ, MYPYPATH=str(package.parent),
                                PYTHONPATH=str(package.parent))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_module(self, module, *arguments):
        return subprocess.run([MYPY, "-P", "-m", module, *arguments], capture_output=True,
                              text=True, env=self.environment, cwd=self.folder, check=False)

    def test_say_what_the_module_has(self):
        allowed = os.path.join(self.folder, "allowed")
        with open(allowed, "w", encoding="utf-8") as file:
            # Names of types, the metaclass of pybind11, and names that begin with an underscore.
            file.write("lucid\\.(Path|Progress|Dataset|Guard|Server)\nlucid\\._.*\nlucid\\.torch\\._.*\n")
            if not importlib.util.find_spec("torch"):
                file.write("lucid\\.torch.*\n")
        # What others have in their own stubs is not looked at: of PyTorch alone it takes a minute.
        config = os.path.join(self.folder, "mypy.ini")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[mypy]\nignore_missing_imports = True\n"
                       "[mypy-torch.*]\nfollow_imports = skip\n")
        common = ["lucid", "--allowlist", allowed, "--ignore-unused-allowlist",
                  "--mypy-config-file", config]
        done = self.run_module("mypy.stubtest", *common, "--ignore-missing-stub")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # And everything that the module offers is in them.
        missing = self.run_module("mypy.stubtest", *common, "--concise").stdout
        self.assertEqual([line for line in missing.splitlines()
                          if any(line.startswith(f"lucid.{name}") for name in lucid.__all__)], [])

    def check(self, text):
        path = os.path.join(self.folder, "use.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.run_module("mypy", "--strict", "--no-incremental", path)

    def test_accept_what_is_right_and_find_what_is_wrong(self):
        done = self.check(RIGHT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for text, word in WRONG.items():
            done = self.check("import lucid\n" + text + "\n")
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
