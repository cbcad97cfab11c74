"""lucid.torch against PyTorch itself. Skipped where PyTorch is not installed (tools/get_torch)."""
import doctest
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import lucid
import numpy as np
from in_a_folder import PROGRAM

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import lucid.torch
    import torch


def model_of(features, hidden=6, classes=2):
    return torch.nn.Sequential(torch.nn.Linear(features, hidden), torch.nn.ReLU(),
                               torch.nn.Dropout(0.0), torch.nn.Linear(hidden, classes))


def save_state(module, path):
    """What safetensors.torch.save_file(module.state_dict(), path) writes."""
    header, blobs, end = {}, [], 0
    for name, tensor in module.state_dict().items():
        blob = tensor.numpy().tobytes()
        kind = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [end, end + len(blob)]}
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def fit(model, x, y, ids):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    size = 10
    for epoch in range(20):
        for batch in lucid.torch.batches(ids, epoch, count=4):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch], reduction="sum")
            (loss / size).backward()
            optimizer.step()


@unittest.skipUnless(TORCH, "PyTorch is not installed (tools/get_torch installs Debian's)")
class Torch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.run_folder = os.path.join(self.folder, "run")

    def data(self):
        return lucid.Dataset.synth2d(os.path.join(self.folder, "p"), rows=40, seed=3)

    def test_networks_go_there_and_back_bit_for_bit(self):
        class Mine(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Conv1d(1, 3, 2)
                self.last = torch.nn.Linear(3 * 6, 4)

            def forward(self, x):
                return self.last(torch.relu(self.first(x.unsqueeze(1))).flatten(1))

        for seed, module in enumerate([model_of(7), Mine()]):
            network = lucid.torch.from_torch(module, features=7)
            path = os.path.join(self.folder, f"{seed}.safetensors")
            network.save(path)
            x = torch.rand(100, 7)
            with torch.no_grad():
                again = lucid.torch.to_torch(path)(x)
                module.eval()
                self.assertTrue(torch.equal(again, module(x)))
                self.assertLess(np.abs(network(x.numpy()) - again.numpy()).max(), 1e-5)

    def test_what_is_no_chain_of_layers_is_refused(self):
        class Softmax(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.only = torch.nn.Linear(3, 2)

            def forward(self, x):
                return torch.softmax(self.only(x), 1)

        with self.assertRaisesRegex(lucid.InvalidInput, "return logits"):
            lucid.torch.from_torch(Softmax())
        norm = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4),
                                   torch.nn.Linear(4, 2))
        with self.assertRaisesRegex(lucid.InvalidInput, "'1', BatchNorm1d"):
            lucid.torch.from_torch(norm)
        with self.assertRaisesRegex(lucid.InvalidInput, "stride 1"):
            lucid.torch.from_torch(torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3, padding=1)))

    def few_rows(self):
        rng = np.random.default_rng(1)
        return lucid.Dataset.from_arrays(os.path.join(self.folder, "d"), rng.random((20, 7)),
                                         rng.integers(0, 2, 20))

    def imported(self, data, export, ending, name, module):
        """N as LUCID reads it of the file that export(module, path) writes."""
        folder = os.path.join(self.folder, name)
        os.makedirs(os.path.join(folder, "members"))
        export(module, os.path.join(folder, "n" + ending))
        with torch.no_grad():
            last = [p for p in module.parameters()][-1]
            last += 1  # a member that is not N
            export(module, os.path.join(folder, "members/0" + ending))
            last -= 1
        run = os.path.join(folder, "run")
        lucid.import_networks(data, os.path.join(folder, "n" + ending),
                              os.path.join(folder, "members"), run, partial=True)
        return lucid.Network.load(os.path.join(run, "network.safetensors"))

    def test_what_pytorch_users_write_is_read_or_refused_with_the_nodes_name(self):
        relu, linear, conv = torch.relu, torch.nn.Linear, torch.nn.Conv1d

        class Of(torch.nn.Module):
            def __init__(self, forward, **parts):
                super().__init__()
                for name, part in parts.items():
                    setattr(self, name, part)
                self.function = forward

            def forward(self, x):
                return self.function(self, x)

        def chain(*middle):
            return torch.nn.Sequential(linear(7, 5), *middle, linear(5, 2))

        nn = torch.nn
        good = {
            "a view by sizes": Of(lambda m, x: m.b(relu(m.a(x.view(x.size(0), 1, x.size(1))))
                                                   .view(x.size(0), -1)),
                                  a=conv(1, 3, 3), b=linear(15, 2)),
            "reshape": Of(lambda m, x: m.b(relu(m.a(x.reshape(-1, 1, 7))).reshape(-1, 15)),
                          a=conv(1, 3, 3), b=linear(15, 2)),
            "an axis by None": Of(lambda m, x: m.b(relu(m.a(x[:, None, :])).flatten(1)),
                                  a=conv(1, 3, 3), b=linear(15, 2)),
            "dropout as a function": Of(
                lambda m, x: m.b(nn.functional.dropout(relu(m.a(x)), 0.3, m.training)),
                a=linear(7, 5), b=linear(5, 2)),
            "no bias": nn.Sequential(linear(7, 5, bias=False), nn.ReLU(inplace=True),
                                     linear(5, 2, bias=False)),
        }
        bad = {
            "Tanh": chain(nn.Tanh()), "LeakyRelu": chain(nn.LeakyReLU()), "Clip": chain(nn.ReLU6()),
            "Sigmoid": nn.Sequential(chain(nn.ReLU()), nn.Sigmoid()),
            "BatchNormalization": chain(nn.ReLU(), nn.BatchNorm1d(5)),
            "Gemm": chain(),  # no ReLU between two layers
            "MaxPool": Of(lambda m, x: m.b(nn.functional.max_pool1d(relu(m.a(x.unsqueeze(1))), 2)
                                           .flatten(1)), a=conv(1, 3, 2), b=linear(9, 2)),
            "Conv": Of(lambda m, x: m.b(relu(m.a(x.unsqueeze(1))).flatten(1)),
                       a=conv(1, 3, 3, padding=1), b=linear(21, 2)),
            "Add": Of(lambda m, x: m.b(x + relu(m.a(x))), a=linear(7, 7), b=linear(7, 2)),
            "Mul": Of(lambda m, x: m.b(relu(m.a(x * 2))), a=linear(7, 5), b=linear(5, 2)),
        }
        torch.manual_seed(3)
        data, x = self.few_rows(), torch.rand(200, 7)
        axes = {"x": {0: "batch"}, "y": {0: "batch"}}
        for opset in (9, 13, 17):
            def export(module, path):
                torch.onnx.export(module.eval(), x[:3], path, opset_version=opset,
                                  input_names=["x"], output_names=["y"], dynamic_axes=axes)

            for name, module in good.items():
                with self.subTest(network=name, opset=opset):
                    ours = self.imported(data, export, ".onnx", f"{name} {opset}", module)
                    with torch.no_grad():
                        theirs = module(x).numpy()
                    self.assertLess(np.abs(ours(x.numpy()) - theirs).max(), 2e-5)
            for node, module in bad.items():
                with self.subTest(network=node, opset=opset):
                    with self.assertRaisesRegex(lucid.InvalidInput, rf"node '.*' \('{node}'\): "):
                        self.imported(data, export, ".onnx", f"{node} {opset}", module)

    def test_state_dicts_are_read_as_they_come(self):
        class Layers(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(
                    [torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4),
                     torch.nn.ReLU(), torch.nn.Linear(4, 2)])

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x

        class Words(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.features = torch.nn.Conv1d(1, 3, 3)
                self.classifier = torch.nn.Sequential(torch.nn.Linear(15, 4), torch.nn.ReLU(),
                                                      torch.nn.Linear(4, 2))

            def forward(self, x):
                return self.classifier(torch.relu(self.features(x.unsqueeze(1))).flatten(1))

        many = []
        for _ in range(11):  # '10' comes after '9' and '20' after '18'
            many += [torch.nn.Linear(7, 7), torch.nn.ReLU()]
        data, x = self.few_rows(), torch.rand(200, 7)
        torch.manual_seed(5)
        for name, module in (("sequential", model_of(7)), ("layers", Layers()), ("words", Words()),
                             ("many", torch.nn.Sequential(*many, torch.nn.Linear(7, 2)))):
            with self.subTest(names=list(module.state_dict())[:4]):
                ours = self.imported(data, save_state, ".safetensors", name, module.eval())
                with torch.no_grad():
                    self.assertLess(np.abs(ours(x.numpy()) - module(x).numpy()).max(), 2e-5)
        with self.assertRaisesRegex(lucid.InvalidInput, "'1.weight': has 1 axes"):
            norm = torch.nn.Sequential(torch.nn.Linear(7, 2), torch.nn.BatchNorm1d(2))
            self.imported(data, save_state, ".safetensors", "norm", norm)

    def test_exports_of_pytorch_are_read_in_every_opset(self):
        class Convolving(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv1d(1, 3, 3, stride=2)
                self.norm = torch.nn.BatchNorm1d(3)
                self.last = torch.nn.Linear(9, 2)

            def forward(self, x):
                x = torch.relu(self.norm(self.conv(x.unsqueeze(1))))
                return torch.log_softmax(self.last(torch.flatten(x, 1)), dim=1)

        class Multiplying(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(7, 5))
                self.bias = torch.nn.Parameter(torch.randn(5))
                self.last = torch.nn.Linear(5, 2)

            def forward(self, x):
                x = torch.relu(torch.matmul(x, self.weight) + self.bias)
                return self.last(x.reshape(-1, 5))

        torch.manual_seed(2)
        dense = torch.nn.Sequential(
            torch.nn.Linear(7, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(),
            torch.nn.Dropout(0.3), torch.nn.Identity(), torch.nn.Flatten(),
            torch.nn.Linear(6, 2), torch.nn.Softmax(dim=1))
        x = torch.rand(50, 7)
        data = self.few_rows()
        for name, module in [("dense", dense), ("conv", Convolving()), ("mul", Multiplying())]:
            for one in module.modules():
                if isinstance(one, torch.nn.BatchNorm1d):
                    torch.nn.init.uniform_(one.running_mean, -1, 1)
                    torch.nn.init.uniform_(one.running_var, 0.5, 2)
                    torch.nn.init.uniform_(one.weight, 0.5, 2)
                    torch.nn.init.uniform_(one.bias, -1, 1)
            module.eval()
            for opset in range(9, 18):
                with self.subTest(network=name, opset=opset):
                    self.compare_export(module, data, x, f"{name}-{opset}", opset)

    def compare_export(self, module, data, x, name, opset):
        members = os.path.join(self.folder, name)
        os.makedirs(members)
        path = os.path.join(self.folder, name + ".onnx")
        axes = {"x": {0: "batch"}, "y": {0: "batch"}}
        # Without folding by the exporter, so that its nodes are all there.
        torch.onnx.export(module, x, path, opset_version=opset, input_names=["x"],
                          output_names=["y"], dynamic_axes=axes, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE)
        with torch.no_grad():
            theirs = module(x).numpy()
            last = [p for p in module.parameters()][-1]
            last += 1  # a member that is not N
            torch.onnx.export(module, x, os.path.join(members, "0.onnx"), opset_version=opset,
                              input_names=["x"], output_names=["y"], dynamic_axes=axes)
            last -= 1
        run = os.path.join(self.folder, name + "-run")
        lucid.import_networks(data, path, members, run, partial=True)
        ours = lucid.Network.load(os.path.join(run, "network.safetensors"))(x.numpy())
        spread = ours[:, 0] - ours[:, 1]
        if isinstance(module[-1] if hasattr(module, "__getitem__") else None, torch.nn.Softmax):
            theirs = np.log(theirs)
        self.assertLess(np.abs(spread - (theirs[:, 0] - theirs[:, 1])).max(), 2e-5)

    def test_a_members_network_is_the_training_without_its_rows(self):
        data = self.data()
        made = lucid.torch.train(data, lambda: model_of(2), fit, self.run_folder, seed=4,
                                 processes=2)
        self.assertEqual(made["members"], len(data.units))
        self.assertGreater(made["train_accuracy"], 0.8)
        kept = np.ones(len(data.train_x), dtype=bool)
        kept[data.units[7]] = False
        torch.manual_seed(4)
        model = model_of(2)
        fit(model, torch.from_numpy(data.train_x[kept]),
            torch.from_numpy(data.train_y[kept].astype(np.int64)),
            torch.from_numpy(data.row_ids[kept]))
        row = data.units[7][0]
        member = lucid.Network.load(f"{self.run_folder}.networks/members/row-{row}.safetensors")
        self.assertTrue(np.array_equal(member.layers[0][0], model[0].weight.detach().numpy()))
        certificate = lucid.bound(self.run_folder)
        self.assertEqual(len(certificate["classes"]), 2)
        self.assertTrue(lucid.check(self.run_folder)["accepted"])
        labels = lucid.Guard(self.run_folder, guard="exact").predict(data.test_x)
        self.assertGreater(np.mean(labels == data.test_y), 0.7)

    def test_the_example_trains_beside_the_built_in_trainer(self):
        example = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                               "../../examples/pytorch_adult.py")
        data = lucid.Dataset.synth2d(os.path.join(self.folder, "q"), rows=60, seed=3)
        out = os.path.join(self.folder, "both")
        done = subprocess.run(
            [sys.executable, "-P", example, "--data", data.folder, "--rows", "50", "--hidden", "6",
             "--time-limit", "20", "--out", out], capture_output=True, text=True, check=True)
        shares = {}
        for line in done.stdout.splitlines():
            found = re.match(r"(PyTorch|built-in) +([\d.]+) % +([\d.]+) % +([\d.]+) % +"
                             r"([\d.]+), ([\d.]+) \(checked\)$", line)
            if found:
                shares[found.group(1)] = [float(number) for number in found.groups()[1:]]
        self.assertEqual(set(shares), {"PyTorch", "built-in"}, done.stdout)
        # The recipe is Adult's, and 50 rows are few: what is claimed is that both ran to the end.
        for name in ("torch", "builtin"):
            with open(os.path.join(out, name, "evaluation.json"), encoding="utf-8") as file:
                methods = [row["method"] for row in json.load(file)["rows"]]
            self.assertEqual(methods, ["none", "scalar", "exact"])

    def test_a_crash_is_tried_again_then_named_and_the_rest_is_kept(self):
        data = self.data()
        bad = int(data.row_ids[5])
        make = lambda: model_of(2)
        mark = os.path.join(self.folder, "crashed")

        def crashes(model, x, y, ids):
            fit(model, x, y, ids)
            if bad not in ids.tolist() and not os.path.exists(mark + "-mended"):
                with open(mark, "a", encoding="utf-8") as file:
                    file.write("x")
                os.abort()

        with self.assertRaisesRegex(lucid.Error, "without row 5 was killed by signal 6 twice"):
            lucid.torch.train(data, make, crashes, self.run_folder, processes=2)
        with open(mark, encoding="utf-8") as file:
            self.assertEqual(file.read(), "xx")
        there = os.listdir(self.run_folder + ".networks/members")
        self.assertEqual(len(there), len(data.units) - 1)
        open(mark + "-mended", "w", encoding="utf-8").close()
        trained = []
        lucid.torch.train(data, make, crashes, self.run_folder, processes=2,
                          progress=lambda what, n, total: trained.append((what, n)))
        self.assertEqual([n for what, n in trained if what == "training"], [len(data.units) + 1])
        with self.assertRaisesRegex(lucid.Mismatch, "another training"):
            lucid.torch.train(data, make, crashes, self.run_folder, seed=9)

    def test_the_example_of_a_worker_is_believed_and_trains_what_it_trains_alone(self):
        examples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")
        worker = os.path.join(examples, "trainer_worker.py")
        data = self.data()
        environment = dict(os.environ, LUCID_PROGRAM=PROGRAM)
        done = subprocess.run(
            [PROGRAM, "train", "--data", data.folder, "--arch", "2x4", "--seed", "3", "--out",
             self.run_folder, "--trainer-worker", f"'{sys.executable}' '{worker}'"],
            capture_output=True, text=True, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(self.run_folder + "/trainer"))
        # Member 7 once more, by a worker that is asked for nothing else.
        alone = os.path.join(self.folder, "alone.safetensors")
        request = {"data": data.folder, "rows": 40, "leave_out": data.units[7], "seed": 3,
                   "arch": "2 > dense 4 > dense 4 > 2", "out": alone}
        # It is written beside and renamed: what had the name before is not written over.
        before = os.path.join(self.folder, "before")
        with open(before, "w", encoding="utf-8") as file:
            file.write("before")
        os.link(before, alone)
        answer = subprocess.run([sys.executable, worker], input=json.dumps(request) + "\n",
                                capture_output=True, text=True, env=environment, check=True)
        self.assertEqual(answer.stdout, "done\n")
        with open(before, encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")
        self.assertFalse(os.path.exists(alone + ".tmp"))
        member = lucid.torch.to_torch(alone).state_dict()
        with open(self.run_folder + "/ensemble.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            start = file.tell()
            begin, end = header["0.weight"]["data_offsets"]
            file.seek(start + begin)
            stacked = np.frombuffer(file.read(end - begin), dtype="<f4").reshape(-1, 4, 2)
        self.assertEqual(len(stacked), len(data.units) + 1)
        self.assertTrue(np.array_equal(stacked[8], member["0.weight"].numpy()))
        self.assertFalse(np.array_equal(stacked[0], stacked[8]))

    def test_ctrl_c_ends_it_whenever_it_comes_and_it_goes_on(self):
        data = self.data()
        script = os.path.join(self.folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import lucid, lucid.torch, time, torch, sys\n"
                       f"data = lucid.Dataset({data.folder!r})\n"
                       "make = lambda: torch.nn.Linear(2, 2)\n"
                       "def fit(model, x, y, ids):\n"
                       "    time.sleep(0.05)\n"
                       "    with torch.no_grad(): model.bias += x.sum()\n"
                       "def told(what, done, total):\n"
                       "    if what == 'training': print(done, flush=True)\n"
                       "try:\n"
                       f"    lucid.torch.train(data, make, fit, {self.run_folder!r}, processes=4,"
                       " progress=told)\n"
                       "except KeyboardInterrupt:\n"
                       "    sys.exit(7)\n")
        there = 0
        for _ in range(4):  # wherever it is just then, in a fork, too
            process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            for _ in range(3):
                before, there = there, int(process.stdout.readline())
                self.assertGreater(there, before)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            process.stdout.read()  # ends when all that it started have ended
            process.stdout.close()
            self.assertEqual(process.wait(30), 7)
        made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        self.assertGreater(int(made.stdout.split()[0]), there)
        self.assertEqual(int(made.stdout.split()[-1]), len(data.units) + 1)
        logs = [name for name in os.listdir(self.run_folder + ".networks") if name.endswith(".log")]
        self.assertEqual(logs, [])

    def test_a_training_that_is_not_seeded_is_refused(self):
        def unseeded(model, x, y, ids):
            with torch.no_grad():
                model[0].bias += int.from_bytes(os.urandom(2), "little") / 65536

        with self.assertRaisesRegex(lucid.InvalidInput, "not seeded"):
            lucid.torch.train(self.data(), lambda: model_of(2), unseeded, self.run_folder)


def load_tests(loader, tests, pattern):
    if TORCH:
        tests.addTests(doctest.DocTestSuite(lucid.torch))
    return tests


if __name__ == "__main__":
    unittest.main()
