"""The Python module against the program: python3 -m unittest, with LUCID_PROGRAM naming `lucid`."""
import contextlib
import doctest
import gc
import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.request

import lucid
import lucid._estimator
import lucid._network
import numpy as np
from in_a_folder import InAFolder


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class TheModuleAndTheProgram(InAFolder):
    def test_make_the_same_bits(self):
        data = lucid.Dataset.synth2d(self.at("p"), rows=40, seed=3)
        self.program("data", "synth2d", "--rows", "40", "--seed", "3", "--out", "q")
        for name in ("train.csv", "test.csv", "schema.csv"):
            self.assertEqual(digest(self.at("p/" + name)), digest(self.at("q/" + name)))
        lucid.train(data, self.at("a"), arch="2x6", batch=8, epochs=60, lr=0.2, seed=5)
        self.program("train", "--data", "p", "--arch", "2x6", "--batch", "8", "--epochs", "60",
                     "--lr", "0.2", "--seed", "5", "--out", "b")
        for name in ("ensemble.safetensors", "network.safetensors"):
            self.assertEqual(digest(self.at("a/" + name)), digest(self.at("b/" + name)))
        made = lucid.bound(self.at("a"), threads=1)
        self.program("bound", "b", "--threads", "1")
        with open(self.at("b/certificate.json"), encoding="utf-8") as file:
            text = file.read()
        for one in made["classes"]:
            self.assertIn(one["beta_upper_hex"], text)
        self.assertTrue(lucid.check(self.at("a"))["accepted"])
        # The same key, the same answers.
        guard = lucid.Guard(self.at("a"), guard="exact", epsilon=0.5)
        labels = self.program("predict", "a", "--input", "p/test.csv", "--guard", "exact",
                              "--epsilon", "0.5").stdout.split()[1:]
        self.assertEqual([str(v) for v in guard.predict(data.test_x)], labels)
        with open(self.at("p/test.csv"), encoding="utf-8") as file:
            rows = [line.strip().split(",")[:2] for line in file][1:]
        self.assertEqual([str(v) for v in guard.predict_records(rows)], labels)

    def test_private_runs_state_full(self):
        data = lucid.Dataset.synth2d(self.at("p"), rows=60, seed=1)
        lucid.train(data, self.at("r"), arch="2x6", preset="private", expected_rows=60)
        guard = lucid.Guard(self.at("r"))
        self.assertEqual(guard.promise, "full")
        self.assertEqual(lucid.card(self.at("r"))["promise"], "full")


class Arrays(InAFolder):
    def test_are_views_that_outlive_the_data_set(self):
        data = lucid.Dataset.synth2d(self.at("p"), rows=40, seed=3)
        x = data.train_x
        self.assertEqual(x.dtype, np.float32)
        self.assertFalse(x.flags.owndata)
        self.assertFalse(x.flags.writeable)
        first = x[0].copy()
        del data
        self.assertTrue((x[0] == first).all())

    def test_come_back_as_they_were(self):
        rng = np.random.default_rng(2)
        x, y = rng.random((50, 3), dtype=np.float32), rng.integers(0, 3, 50)
        data = lucid.Dataset.from_arrays(self.at("d"), x, y, groups=np.arange(50) // 2,
                                         test=(x[:7], y[:7]))
        self.assertTrue((data.train_x == x).all())
        self.assertTrue((data.train_y == y).all())
        self.assertTrue((data.test_x == x[:7]).all())
        self.assertIn("unit", data.schema)
        wide = lucid.Dataset.from_arrays(self.at("w"), 100 * x, y, ranges=[(0, 100)] * 3)
        self.assertLess(np.abs(wide.train_x - x).max(), 1e-6)


class Errors(InAFolder):
    def test_have_kinds_of_their_own(self):
        with self.assertRaises(lucid.InvalidInput) as caught:
            lucid.Dataset(self.at("nowhere"))
        self.assertIn("no such folder", str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(lucid.InvalidInput):
            lucid.Dataset.from_arrays(self.at("d"), [[2.0], [0.5]], [0, 1])
        data = lucid.Dataset.synth2d(self.at("p"), rows=40, seed=3)
        with self.assertRaisesRegex(lucid.InvalidInput, "unknown option 'epohcs'"):
            lucid.train(data, self.at("r"), epohcs=3)
        with self.assertRaises(lucid.InvalidInput):
            lucid.Guard(self.at("r"))
        lucid.train(data, self.at("r"), arch="2x4", epochs=2, seed=1)
        with open(self.at("r/network.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x01")
        with self.assertRaises(lucid.Mismatch):
            lucid.bound(self.at("r"))
        self.assertFalse(os.path.exists(self.at("r/guard.key")))


class LongWork(InAFolder):
    def test_tells_progress_and_lets_other_threads_run(self):
        data = lucid.Dataset.synth2d(self.at("p"), rows=2000, seed=3)
        told, ticks, done = [], [], threading.Event()

        def tick():
            while not done.wait(0.01):
                ticks.append(1)

        thread = threading.Thread(target=tick)
        thread.start()
        lucid.train(data, self.at("r"), arch="2x10", epochs=20, batch=64, seed=1, threads=1,
                    progress=lambda what, n, total: told.append((what, n, total)))
        done.set()
        thread.join()
        self.assertTrue(any(what == "training" and n == total for what, n, total in told), told)
        self.assertGreater(len(ticks), 5)

    def test_true_shows_a_bar_of_tqdm_with_the_total_of_each_stage(self):
        try:
            import tqdm
        except ImportError:
            self.skipTest("tqdm is not there")
        made = []

        class Bar(tqdm.tqdm):
            def close(self):
                if (self.desc, self.n, self.total) not in made:
                    made.append((self.desc, self.n, self.total))
                super().close()

        with unittest.mock.patch("tqdm.tqdm", Bar), contextlib.redirect_stderr(io.StringIO()):
            show = lucid._shown(True)
            for done, total in ((1, 2), (2, 2), (1, 301), (301, 301)):
                show("training", done, total)
            show("class 0", 7, 0)
            del show
        gc.collect()
        self.assertEqual(made, [("training", 301, 301), ("class 0", 7, None)])

    def test_ends_with_what_the_callback_raises_and_goes_on(self):
        data = lucid.Dataset.synth2d(self.at("p"), rows=2000, seed=3)
        arguments = dict(arch="2x10", epochs=40, batch=64, seed=1, threads=1)

        def enough(what, done, total):
            if what == "training" and done > 0:
                raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            lucid.train(data, self.at("r"), progress=enough, **arguments)
        again = lucid.train(data, self.at("r"), **arguments)
        self.assertGreater(again["trained_now"], 0)
        self.assertLess(again["trained_now"], again["members"] + 1)

    def test_ctrl_c_stops_within_a_second_and_the_run_goes_on(self):
        script = self.at("long.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import lucid, sys\n"
                       f"data = lucid.Dataset.synth2d({self.at('p')!r}, rows=7000, seed=3)\n"
                       "print('begun', flush=True)\n"
                       "try:\n"
                       f"    lucid.train(data, {self.at('r')!r}, arch='2x50', epochs=50, batch=64,"
                       " seed=1)\n"
                       "except KeyboardInterrupt:\n"
                       "    sys.exit(7)\n")
        process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(1)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 7)
        # A second on a machine with nothing else to do.
        self.assertLess(time.monotonic() - start, 5)
        process.stdout.close()
        with self.assertRaises(lucid.InvalidInput):
            lucid.Guard(self.at("r"))  # not finished, and whole


class Runs(InAFolder):
    """Import, audit and server, on one small run."""

    def setUp(self):
        super().setUp()
        self.data = lucid.Dataset.synth2d(self.at("p"), rows=40, seed=3)
        lucid.train(self.data, self.at("r"), arch="2x6", batch=8, epochs=60, lr=0.2, seed=5)

    def test_networks_trained_elsewhere_become_a_run(self):
        made = lucid.import_networks(self.data, self.at("r/network.safetensors"),
                                     self.at("r/ensemble.safetensors"), self.at("i"))
        self.assertEqual(made["members"], 40)
        self.assertFalse(made["partial"])
        self.assertEqual(digest(self.at("i/network.safetensors")),
                         digest(self.at("r/network.safetensors")))
        self.program("import", "--network", "r/network.safetensors", "--members",
                     "r/ensemble.safetensors", "--data", "p", "--out", "k")
        self.assertEqual(digest(self.at("i/ensemble.safetensors")),
                         digest(self.at("k/ensemble.safetensors")))
        with self.assertRaises(lucid.InvalidInput):
            lucid.import_networks(self.data, self.at("r/network.safetensors"),
                                  self.at("r/ensemble.safetensors"), self.at("j"), arch="2x7")

    def test_an_audit_says_what_held_and_is_kept(self):
        lucid.bound(self.at("r"))
        made = lucid.audit(self.at("r"), attacks=["gap", "white-box"], epsilons=[0.0], seed=1)
        self.assertTrue(made["holds"])
        with open(self.at("r/audit.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), made)
        with self.assertRaisesRegex(lucid.InvalidInput, "unknown option 'atacks'"):
            lucid.audit(self.at("r"), atacks=["gap"])

    def ask(self, server, rows):
        body = {"inputs": [{"name": "input", "shape": list(rows.shape), "datatype": "FP32",
                            "data": rows.ravel().tolist()}]}
        request = urllib.request.Request(server.infer_url, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)["outputs"][0]["data"]

    def test_a_server_gives_the_guards_answers_until_it_is_stopped(self):
        lucid.bound(self.at("r"))
        with self.assertRaises(lucid.Error):  # nobody has checked the bounds
            lucid.serve(self.at("r"))
        self.assertTrue(lucid.check(self.at("r"))["accepted"])
        labels = lucid.Guard(self.at("r"), guard="exact").predict(self.data.test_x)
        with lucid.serve(self.at("r"), guard="exact", latency_floor=0.02) as server:
            self.assertTrue(server.running)
            self.assertRegex(server.url, r"^http://127\.0\.0\.1:[0-9]+$")
            self.assertEqual(self.ask(server, self.data.test_x), labels.tolist())
            server.reload()
            self.assertEqual(self.ask(server, self.data.test_x), labels.tolist())
        self.assertFalse(server.running)
        server.stop()
        with self.assertRaises(OSError):
            self.ask(server, self.data.test_x)

    def test_a_server_that_nobody_stops_does_not_keep_python_from_ending(self):
        lucid.bound(self.at("r"))
        text = f"import lucid; s = lucid.serve({self.at('r')!r}, unchecked=True); print(s.url)"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("http://", done.stdout)


class Estimator(InAFolder):
    def people(self, n=240):
        rng = np.random.default_rng(5)
        x = rng.random((n, 3))
        return x, np.where(x[:, 0] + x[:, 1] > 1, "ill", "well")

    def model(self):
        return lucid.LucidClassifier(arch="2x6", expected_rows=200, random_state=1,
                                     run=self.at("r"))

    def test_keeps_the_conventions(self):
        model = self.model()
        twin = type(model)(**model.get_params())
        self.assertEqual(twin.get_params(), model.get_params())
        self.assertEqual(repr(twin), repr(model))
        x, y = self.people()
        self.assertIs(model.fit(x, y), model)
        self.assertEqual(list(model.classes_), ["ill", "well"])
        self.assertEqual(model.n_features_in_, 3)
        self.assertGreater(model.score(x, y), 0.85)
        self.assertTrue((model.predict(x) == model.predict(x)).all())
        self.assertEqual(model.promise_, "labels")
        self.assertEqual(len(model.certificate_["classes"]), 2)
        self.assertEqual(model.privacy_card()["promise"], "labels")
        self.assertEqual(model.fit_["bounds"], "proved and checked")
        again = pickle.loads(pickle.dumps(model))
        self.assertTrue((again.predict(x) == model.predict(x)).all())
        with self.assertRaises(lucid.InvalidInput):
            model.set_params(depth=3)
        with self.assertRaises(lucid.InvalidInput):
            model.predict(x[:, :2])
        with self.assertRaises(lucid.NotFittedError) as caught:
            lucid.LucidClassifier().predict(x)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertIsInstance(caught.exception, AttributeError)

    def test_what_does_not_fit_is_said_before_any_work(self):
        x, y = self.people()
        model = self.model().fit(x, y)
        for wrong in (x[0], x[None], x[:, :2], x[:0], [["a", 0.1, 0.2]], [[np.nan, 0, 0]],
                      [[np.inf, 0, 0]]):
            with self.assertRaises(lucid.InvalidInput):
                model.predict(wrong)
        with self.assertRaisesRegex(lucid.InvalidInput, "239 classes for 240 rows"):
            model.score(x, y[:-1])
        self.assertEqual(model.score(x, np.ones(240)), 0.0)  # numbers are no words
        unused = lucid.LucidClassifier(run=self.at("unused"))
        for change, message in (({"guard": "exat"}, "auto, scalar"), ({"epsilon": -1}, "epsilon"),
                                ({"epsilon": float("nan")}, "epsilon")):
            with self.assertRaisesRegex(lucid.InvalidInput, message):
                lucid.LucidClassifier(run=self.at("unused"), **change).fit(x, y)
        with self.assertRaisesRegex(lucid.InvalidInput, "no value for row 7"):
            unused.fit(x, y, groups=["a"] * 7 + [None] * 233)
        with self.assertRaisesRegex(lucid.InvalidInput, "3 groups for 240 rows"):
            unused.fit(x, y, groups=[1, 2, 3])
        with self.assertRaisesRegex(lucid.InvalidInput, "progress is 3"):
            unused.fit(x, y, progress=3)
        self.assertFalse(os.path.exists(self.at("unused")))

    def test_a_stopped_fit_goes_on(self):
        script = self.at("fit.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import lucid, numpy as np, sys\n"
                       "x = np.random.default_rng(1).random((2500, 4))\n"
                       "y = np.where(x[:, 0] + x[:, 1] > 1, 'ill', 'well')\n"
                       f"model = lucid.LucidClassifier(run={self.at('r')!r}, expected_rows=2000,"
                       " time_limit=20, random_state=1)\n"
                       "def told(what, done, total):\n"
                       "    if 'training' in what: print(done, flush=True)\n"
                       "try:\n"
                       "    model.fit(x, y, progress=told)\n"
                       "except KeyboardInterrupt:\n"
                       "    sys.exit(7)\n"
                       "print(model.score(x, y))\n")
        process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        self.assertEqual(process.wait(30), 7, rest)
        process.stdout.close()
        again = subprocess.run([sys.executable, script], capture_output=True, text=True,
                               check=True).stdout.split()
        self.assertGreater(int(again[0]), 1)  # networks that were there
        self.assertGreater(float(again[-1]), 0.8)

    def test_groups_are_units_and_numbers_stay_numbers(self):
        x, y = self.people()
        model = self.model()
        model.fit(x, (y == "ill").astype(int), groups=np.arange(len(x)) // 2)
        self.assertEqual(model.fit_["units"], 120)
        self.assertTrue(np.issubdtype(model.predict(x[:5]).dtype, np.integer))

    def test_data_frames_may_hold_words_in_any_order_of_columns(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not there")
        x, y = self.people()
        frame = pandas.DataFrame(x, columns=["a", "b", "c"])
        frame["job"] = np.where(x[:, 2] > 0.5, "cook", "nurse")
        model = self.model()
        model.fit(frame, y)
        said = model.predict(frame)
        self.assertTrue((model.predict(frame[["job", "c", "b", "a"]]) == said).all())
        self.assertTrue((model.predict(frame.assign(more="x")) == said).all())
        with self.assertRaisesRegex(lucid.InvalidInput, "X has no column 'b'"):
            model.predict(frame[["a", "c", "job"]])
        twice = frame.rename(columns={"b": "a"})
        with self.assertRaisesRegex(lucid.InvalidInput, "two columns 'a'"):
            self.model().fit(twice, y)

    def test_missing_cells_of_every_kind_and_columns_that_are_left_out(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not there")
        x, y = self.people()
        frame = pandas.DataFrame(x, columns=["a", "b", "c"])
        frame["job"] = pandas.Categorical(np.where(x[:, 2] > 0.5, "cook", "nurse"))
        frame["count"] = pandas.array(np.arange(len(x)) % 9, dtype="Int64")
        frame["seen"] = pandas.date_range("2020-01-01", periods=len(x))
        frame.loc[3, "job"], frame.loc[4, "count"] = np.nan, pandas.NA
        frame.loc[5, "seen"], frame.loc[6, "a"] = pandas.NaT, np.nan
        with self.assertRaisesRegex(lucid.InvalidInput, "missing='fill'"):
            self.model().fit(frame, y)
        model = self.model().set_params(missing="fill")
        with self.assertWarnsRegex(lucid.FitWarning, "column 'seen' is left out: dates"):
            model.fit(frame, y)
        self.assertEqual(model.fit_["missing_cells"], 3)  # the dates are left out
        self.assertEqual(len(model.predict(frame[:8])), 8)
        with self.assertRaisesRegex(lucid.InvalidInput, "y contains NaN"):
            model.fit(frame, pandas.array([pandas.NA] + list(y[1:])))


def load_tests(loader, tests, pattern):
    tests.addTests(doctest.DocTestSuite(lucid))
    tests.addTests(doctest.DocTestSuite(lucid._estimator))
    tests.addTests(doctest.DocTestSuite(lucid._network))
    return tests


if __name__ == "__main__":
    unittest.main()
