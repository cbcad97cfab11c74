"""One network as arrays, and its file."""
import json as _json
import os as _os
import re as _re

import numpy as _np

from ._errors import InvalidInput


def _names_in_order(tensors):
    """The names of the layers, by the numbers in them: '0', '2', '10' or 'fc1', 'fc2'."""
    names = [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]
    if len({_re.sub(r"\d+", "#", name) for name in names}) > 1:
        raise ValueError(f"the order of {', '.join(names)} is not known: lucid.import_networks "
                         "tries which one fits")
    return sorted(names, key=lambda name: [int(digits) for digits in _re.findall(r"\d+", name)])


class Network:
    """Layers of weights and biases (float32) with ReLU between them; the last gives the outputs of
    the classes. A weight of shape (out, in) is a dense layer, one of (filters, channels, width) a
    1-D convolution without padding, whose stride is in ``strides``.

    >>> import lucid, numpy as np, os, tempfile
    >>> network = lucid.Network([(np.ones((2, 3)), np.zeros(2)), (np.eye(2), np.zeros(2))])
    >>> network(np.array([[1.0, 2.0, 3.0]])).tolist()
    [[6.0, 6.0]]
    >>> path = os.path.join(tempfile.mkdtemp(), "n.safetensors")
    >>> network.save(path)
    >>> lucid.Network.load(path).layers[0][0].shape
    (2, 3)
    """

    def __init__(self, layers, strides=None):
        self.layers = [tuple(_np.ascontiguousarray(array, dtype="<f4") for array in pair)
                       for pair in layers]
        self.strides = [1] * len(self.layers) if strides is None else list(strides)
        for i, (weight, bias) in enumerate(self.layers):
            if weight.ndim not in (2, 3) or bias.shape != weight.shape[:1]:
                raise InvalidInput(f"layer {i} has a weight of shape {weight.shape} and a bias of "
                                   f"shape {bias.shape}")
        if not self.layers or self.layers[-1][0].ndim != 2:
            raise InvalidInput("the last layer of a network must be dense")

    def __call__(self, x):
        """The outputs of the classes for every row of x, computed in double: close to those of the
        guard, but not to the bit."""
        values = _np.asarray(x, dtype=float)
        for i, (weight, bias) in enumerate(self.layers):
            weight, bias = weight.astype(float), bias.astype(float)
            if weight.ndim == 3:
                channels, width = weight.shape[1:]
                planes = values.reshape(len(values), channels, -1)
                windows = _np.lib.stride_tricks.sliding_window_view(planes, width, axis=2)
                windows = windows[:, :, ::self.strides[i]]
                values = _np.einsum("nclw,fcw->nfl", windows, weight) + bias[None, :, None]
            else:
                values = values.reshape(len(values), -1) @ weight.T + bias
            if i + 1 < len(self.layers):
                values = _np.maximum(values, 0)
        return values

    def save(self, path):
        """Writes the .safetensors file that ``import_networks`` and ``lucid import`` read."""
        if any(stride != 1 for stride in self.strides):
            raise InvalidInput("a convolution's stride is not in such a file: it must be 1")
        header, blobs, offset = {}, [], 0
        for i, pair in enumerate(self.layers):
            for name, array in zip(("weight", "bias"), pair):
                blob = array.tobytes()
                header[f"{i}.{name}"] = {"dtype": "F32", "shape": list(array.shape),
                                         "data_offsets": [offset, offset + len(blob)]}
                offset += len(blob)
                blobs.append(blob)
        text = _json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = _os.fspath(path)
        unfinished = path + ".part"
        with open(unfinished, "wb", opener=lambda p, flags: _os.open(p, flags, 0o600)) as file:
            file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))
        _os.replace(unfinished, path)

    @classmethod
    def load(cls, path):
        """Reads a .safetensors file of one network, such as RUN/network.safetensors, or that of a
        ``state_dict`` whose layers are in the order of the numbers in their names."""
        try:
            with open(path, "rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = _json.loads(file.read(size))
                data = file.read()
            architecture = header.pop("__metadata__", {}).get("architecture", "")
            tensors = {}
            for name, one in header.items():
                begin, end = one["data_offsets"]
                tensors[name] = _np.frombuffer(data[begin:end], dtype="<f4").reshape(one["shape"])
            layers = [(tensors.pop(f"{name}.weight"), tensors.pop(f"{name}.bias"))
                      for name in _names_in_order(tensors)]
            if tensors:
                raise KeyError(sorted(tensors)[0])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"'{_os.fspath(path)}' holds no network of LUCID: {error!r}") from None
        strides = [int(found.group(1)) if (found := _re.search(r"stride (\d+)", part)) else 1
                   for part in architecture.split(" > ")[1:]]
        return cls(layers, strides or None)
