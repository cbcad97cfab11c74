#!/usr/bin/env python3
"""A client of the Open Inference Protocol v2 (KServe) with Python's standard library only.

    examples/kserve_v2_client.py URL TABLE.csv [--model lucid] [--batch 256]

Asks the server for its model's inputs, sends the table's columns as named tensors, and prints one
label per line. An API key is taken from the environment: LUCID_KEY.
"""

import argparse
import csv
import json
import os
import sys
import urllib.error
import urllib.request


class InferenceClient:
    """One model of one server."""

    def __init__(self, url, model, key=None):
        self.base = f"{url.rstrip('/')}/v2/models/{model}"
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def _ask(self, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.base + path, data=body, headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as failure:
            # Every failure has a document: {"error": "..."}.
            reason = json.load(failure).get("error", failure.reason)
            raise RuntimeError(f"{failure.code}: {reason}") from None

    def columns(self):
        """The raw columns the model takes, by name: their datatypes."""
        inputs = self._ask("")["inputs"]
        return {one["name"]: one["datatype"] for one in inputs if one["name"] != "input"}

    def labels(self, columns, request_id):
        """Labels of rows; columns: {name: (datatype, values)}, all of one length."""
        inputs = [
            {"name": name, "datatype": datatype, "shape": [len(values), 1], "data": values}
            for name, (datatype, values) in columns.items()
        ]
        answer = self._ask("/infer", {"id": request_id, "inputs": inputs})
        if answer["id"] != request_id:
            raise RuntimeError(f"the answer is to request {answer['id']}, not {request_id}")
        (output,) = answer["outputs"]
        return output["data"]


def as_tensors(rows, datatypes):
    """The rows of a csv.DictReader as columns of the model's datatypes."""
    tensors = {}
    for name, datatype in datatypes.items():
        convert = str if datatype == "BYTES" else float
        tensors[name] = (datatype, [convert(row[name]) for row in rows])
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("table")
    parser.add_argument("--model", default="lucid")
    parser.add_argument("--batch", type=int, default=256, help="rows per request")
    arguments = parser.parse_args()

    client = InferenceClient(arguments.url, arguments.model, os.environ.get("LUCID_KEY"))
    datatypes = client.columns()
    with open(arguments.table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for first in range(0, len(rows), arguments.batch):
        batch = rows[first : first + arguments.batch]
        for label in client.labels(as_tensors(batch, datatypes), request_id=str(first)):
            print(label)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, KeyError, ValueError) as problem:
        sys.exit(f"kserve_v2_client: {problem}")
