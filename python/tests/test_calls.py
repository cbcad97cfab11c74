"""What holds for every call of the module: examples, arguments, Ctrl-C."""
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import lucid
import numpy as np
from in_a_folder import InAFolder

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Documentation(InAFolder):
    def test_everything_public_has_an_example(self):
        # test_lucid.py runs them.
        kinds = [getattr(lucid, name) for name in lucid.__all__]
        kinds = [one for one in kinds if not (inspect.isclass(one)
                                              and issubclass(one, (Exception, Warning)))]
        without = [one.__name__ for one in kinds if ">>> " not in (one.__doc__ or "")]
        self.assertEqual(without, ["Server"])  # whose text sends the reader to `serve`
        self.assertIn("See ``serve`` for an example", lucid.Server.__doc__)
        for kind in kinds:
            for name, one in vars(kind).items() if inspect.isclass(kind) else ():
                if not name.startswith("_"):
                    text = inspect.getdoc(one) or inspect.getdoc(getattr(one, "fget", None))
                    self.assertTrue(text, f"{kind.__name__}.{name}")

    def test_the_readme_shows_the_example_and_what_it_prints(self):
        program = SOURCE / "examples/quickstart.py"
        if not program.exists():
            self.skipTest("the sources are not here")
        readme = (SOURCE / "README.md").read_text(encoding="utf-8")
        quoted = "".join(f"    {line}\n" if line else "\n"
                         for line in program.read_text(encoding="utf-8").splitlines())
        self.assertIn(quoted, readme)
        done = subprocess.run([sys.executable, "-P", str(program)], capture_output=True, text=True,
                              cwd=self.folder, check=True)
        shown = re.search(r"^    \$ .*quickstart.py\n((?:    .*\n)+)", readme, re.M).group(1)
        # The bounds may end by the clock, and noise is fresh: numbers and labels may differ.
        def shape(text):
            return re.sub(r"ill|well|scalar|spatial|exact", "@", re.sub(r"[\d.]+", "#", text)).split()

        self.assertEqual(shape(done.stdout), shape(shown), done.stdout)


class Arguments(InAFolder):
    def setUp(self):
        super().setUp()
        self.data = lucid.Dataset.synth2d(self.at("p"), rows=40, seed=3)
        lucid.train(self.data, self.at("r"), arch="2x6", batch=8, epochs=60, lr=0.2, seed=5)

    def test_unknown_options_are_named_with_the_nearest_known_one(self):
        run = self.at("r")
        for call in (lambda: lucid.train(self.data, self.at("q"), epohcs=3),
                     lambda: lucid.fit("people.csv", "result", self.at("q"), mising="fill"),
                     lambda: lucid.audit(run, atacks=["gap"]),
                     lambda: lucid.serve(run, latency_flor=0.02),
                     lambda: lucid.Server(run, ledgre="l.db")):
            with self.assertRaisesRegex(lucid.InvalidInput, "did you mean '[a-z_]+'"):
                call()
        with self.assertRaisesRegex(lucid.InvalidInput, "'colour': one of arch, declared"):
            lucid.fit("people.csv", "result", self.at("q"), colour="red")

    def test_wrong_values_are_errors_of_lucid(self):
        run = self.at("r")
        for call, words in (
                (lambda: lucid.train(7, self.at("q")), "must be a lucid.Dataset"),
                (lambda: lucid.train(self.at("nowhere"), self.at("q")), "no such folder"),
                (lambda: lucid.train(self.data, self.at("q"), epochs="many"), "epochs is 'many'"),
                (lambda: lucid.train(self.data, self.at("q"), seed=-1), "seed is -1"),
                (lambda: lucid.train(self.data, self.at("q"), threads=2.5), "threads is 2.5"),
                (lambda: lucid.train(self.data, self.at("q"), arch="2y6"), "2y6"),
                (lambda: lucid.train(self.data, self.at("q"), preset="best"), "best"),
                (lambda: lucid.bound(run, time_limit="long"), "time_limit is 'long'"),
                (lambda: lucid.bound(run, domain="all"), "all"),
                (lambda: lucid.bound(self.at("nowhere")), "nowhere"),
                (lambda: lucid.check(run), "certificate"),
                (lambda: lucid.evaluate(run, "none"), "a list of names"),
                (lambda: lucid.evaluate(run, ["nothing"]), "nothing"),
                (lambda: lucid.evaluate(run, ["none"], ["much"]), "epsilon is 'much'"),
                (lambda: lucid.audit(run, targets="all"), "targets is 'all'"),
                (lambda: lucid.serve(run, budget="much", unchecked=True), "budget is 'much'"),
                (lambda: lucid.Dataset.synth2d(self.at("s"), rows="few"), "rows is 'few'"),
                (lambda: lucid.Dataset.from_arrays(self.at("s"), [["cook"]], [1]), "cook")):
            with self.assertRaises(lucid.Error) as caught:
                call()
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
        self.assertFalse(os.path.exists(self.at("q")))

    def test_paths_may_be_paths_and_folders_stand_for_data_sets(self):
        folder = pathlib.Path(self.folder)
        made = lucid.train(folder / "p", folder / "t", arch="2x6", batch=8, epochs=60, lr=0.2,
                           seed=5)
        self.assertEqual((made["members"], made["trained_now"]), (40, 41))
        with open(folder / "t/ensemble.safetensors", "rb") as one:
            with open(folder / "r/ensemble.safetensors", "rb") as other:
                self.assertEqual(one.read(), other.read())
        lucid.bound(folder / "t")
        self.assertTrue(lucid.check(folder / "t")["accepted"])
        made = lucid.evaluate(folder / "t", ["none", "scalar"])
        with open(folder / "t/evaluation.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file), made)
        self.assertEqual(lucid.report(folder / "t"), str(folder / "t/report.html"))
        page = lucid.report(folder / "t", folder / "page.html")
        with open(page, encoding="utf-8") as file:
            self.assertIn("What privacy costs", file.read())
        with lucid.serve(folder / "t", promise="labels", ledger=folder / "l.db", budget=5) as one:
            self.assertTrue(one.running)
        with self.assertRaisesRegex(lucid.Error, "promise full is not kept"):
            lucid.serve(folder / "t", promise="labels+full")

    def test_a_guard_takes_arrays_of_any_kind_and_data_frames(self):
        lucid.bound(self.at("r"))
        guard = lucid.Guard(self.at("r"), guard="exact")
        x = self.data.test_x
        labels = guard.predict(x)
        self.assertTrue((guard.predict(x.astype(float)) == labels).all())
        self.assertTrue((guard.predict(np.asfortranarray(x)) == labels).all())
        self.assertTrue((guard.predict(x.tolist()) == labels).all())
        self.assertTrue((guard.predict(np.repeat(x, 2, axis=0)[::2]) == labels).all())
        self.assertEqual(guard.predict(np.empty((0, 2), dtype=np.float32)).shape, (0,))
        # More rows than are asked in one part.
        many = np.tile(x, (1 + 20000 // len(x), 1))
        self.assertTrue((guard.predict(many) == np.tile(labels, len(many) // len(x))).all())
        wrong = many.copy()
        wrong[12345, 1] = np.nan
        with self.assertRaisesRegex(lucid.InvalidInput, "row 12345: "):
            guard.predict(wrong)
        for one in (x[0], x[:, :1], [["a", "b"]], [[1, 2], [3]]):
            with self.assertRaises(lucid.InvalidInput):
                guard.predict(one)
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not there")
        frame = pandas.DataFrame({"more": "x", "x2": x[:, 1].astype(float),
                                  "x1": x[:, 0].astype(float)})
        self.assertTrue((guard.predict(frame) == labels).all())
        self.assertTrue((guard.predict_records(frame) == labels).all())
        with self.assertRaisesRegex(lucid.InvalidInput, "there is no column 'x1'"):
            guard.predict(frame[["x2"]])


# Each call would take minutes; it tells when it is at work.
LONG = """
import lucid, numpy as np, sys
data, run, call = lucid.Dataset("p"), "r", sys.argv[1]
def told(what, done, total):
    if what != "checking the ensemble": print("begun", flush=True)
def predict():
    x = np.tile(data.train_x, (100000, 1))
    guard = lucid.Guard(run, guard="exact")
    print("begun", flush=True)
    guard.predict(x)
calls = {
    "train": lambda: lucid.train(data, "t", arch="2x50", epochs=2000, batch=10, seed=1,
                                 progress=told),
    "bound": lambda: lucid.bound(run, gap=1e-12, time_limit=600, progress=told),
    "evaluate": lambda: lucid.evaluate(run, ["none", "alibi"], list(range(1, 400)), progress=told),
    "audit": lambda: lucid.audit(run, deployed=100, targets=100, seed=1, progress=told),
    "predict": predict,
}
try:
    calls[call]()
except KeyboardInterrupt:
    sys.exit(7)
"""


class Interrupts(InAFolder):
    def test_ctrl_c_stops_every_long_call_soon_and_the_call_goes_on(self):
        data = lucid.Dataset.synth2d(self.at("p"), rows=170, seed=3)
        lucid.train(data, self.at("r"), arch="6x50", batch=30, epochs=40, lr=0.1, seed=5)
        script = self.at("long.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(LONG)
        for call in ("train", "bound", "evaluate", "audit", "predict"):
            with self.subTest(call=call):
                process = subprocess.Popen([sys.executable, "-P", script, call], text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           cwd=self.folder)
                self.assertEqual(process.stdout.readline(), "begun\n", process.poll())
                time.sleep(0.3)
                self.assertIsNone(process.poll(), "it ended by itself")
                start = time.monotonic()
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 7, said)
                # A second on a machine with nothing else to do.
                self.assertLess(time.monotonic() - start, 5)
            if call == "bound":  # what it left is valid, and the next call goes on from it
                self.assertTrue(os.path.exists(self.at("r/certificate.json.journal")))
                made = lucid.bound(self.at("r"), gap=1e-12, time_limit=2)
                for one in made["classes"]:
                    self.assertTrue(one["beta_lower"] <= one["beta_upper"] < 100)
                lucid.bound(self.at("r"))
                self.assertTrue(lucid.check(self.at("r"))["accepted"])
        self.assertEqual(len(lucid.evaluate(self.at("r"), ["none"])["rows"]), 1)
        labels = lucid.Guard(self.at("r"), guard="exact").predict(data.train_x)
        self.assertEqual(labels.shape, (170,))


if __name__ == "__main__":
    unittest.main()
