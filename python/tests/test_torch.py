"""lucid.torch against PyTorch itself. Skipped where PyTorch is not installed (tools/get_torch)."""
import doctest
import importlib.util
import os
import tempfile
import unittest

import lucid
import numpy as np

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import lucid.torch
    import torch


def model_of(features, hidden=6, classes=2):
    return torch.nn.Sequential(torch.nn.Linear(features, hidden), torch.nn.ReLU(),
                               torch.nn.Dropout(0.0), torch.nn.Linear(hidden, classes))


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
        rng = np.random.default_rng(1)
        data = lucid.Dataset.from_arrays(os.path.join(self.folder, "d"), rng.random((20, 7)),
                                         rng.integers(0, 2, 20))
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
