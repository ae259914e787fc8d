#!/usr/bin/env python3
"""Trains the small digits network of the tutorials and writes its weights and reference outputs.

The network (LeNet-like, input N x 1 x 8 x 8, values in [0, 1]):

    conv1 1 -> 16, 3x3, pad 1, relu
    conv2 16 -> 32, 3x3, pad 1, relu
    maxpool 2x2                      (N x 32 x 4 x 4)
    flatten in NCHW order            (N x 512)
    fc1 512 -> 64, relu
    fc2 64 -> 10                     (logits)

The data are scikit-learn's digits (1797 images of the UCI handwritten digits). 360 of them, a
stratified sample with a fixed seed, are held out: they are never seen in training, nor used to
choose a setting. Everything is seeded and runs on one thread, so that a second run on the same
machine and versions writes the same bytes.

Usage: python train_digits.py --out <folder>
"""

import argparse
import json
import os

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

MAGIC = b"HDDL1\n"
ALIGNMENT = 64
HELD_OUT = 360
DTYPE_NAMES = {np.dtype("<f4"): "f32", np.dtype("<i4"): "i32", np.dtype("u1"): "u8"}


class DigitsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(512, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        x = torch.max_pool2d(x, 2)
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        return self.fc2(x)


def align(position):
    return (position + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def write_tensors(path, tensors):
    """Writes a list of (name, array) as one container file; the README beside it has the layout."""
    entries = []
    offset = 0
    for name, array in tensors:
        # Offsets count from the start of the data section, so the header's own length, which
        # depends on the digits written in it, does not matter.
        offset = align(offset)
        entries.append({
            "name": name,
            "dtype": DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "offset": offset,
            "bytes": array.nbytes,
        })
        offset += array.nbytes
    header = MAGIC + json.dumps({"tensors": entries}).encode("ascii") + b"\n"
    with open(path, "wb") as out:
        out.write(header)
        start = align(len(header))
        for entry, (_, array) in zip(entries, tensors):
            out.write(b"\0" * (start + entry["offset"] - out.tell()))
            out.write(np.ascontiguousarray(array).tobytes())
    print(f"wrote {os.path.basename(path)}: {os.path.getsize(path)} bytes")


def load_split():
    digits = load_digits()
    images = (digits.images / 16.0).astype("<f4").reshape(-1, 1, 8, 8)
    labels = digits.target.astype("<i4")
    return train_test_split(images, labels, test_size=HELD_OUT, random_state=7, stratify=labels)


def training_set():
    """The images that are not held out, as they are in the collection: values 0 to 16, in its order."""
    digits = load_digits()
    rows, _ = train_test_split(np.arange(len(digits.target)), test_size=HELD_OUT, random_state=7,
                               stratify=digits.target.astype("<i4"))
    rows = np.sort(rows)
    return [("images", digits.images[rows].astype("u1").reshape(-1, 1, 8, 8)),
            ("labels", digits.target[rows].astype("u1"))]


def train(images, labels, epochs):
    model = DigitsNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    batch = 64
    steps = epochs * ((len(images) + batch - 1) // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    x = torch.from_numpy(images)
    y = torch.from_numpy(labels).long()
    order = torch.Generator().manual_seed(11)
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(x), generator=order).split(batch):
            optimizer.zero_grad()
            loss = loss_of(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1}: mean loss {total / len(x):.4f}")
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="folder for the .bin files")
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(3)
    np.random.seed(3)
    torch.set_num_threads(1)  # the order of sums in a gradient depends on the thread count
    torch.use_deterministic_algorithms(True)

    train_x, test_x, train_y, test_y = load_split()
    model = train(train_x, train_y, args.epochs)
    with torch.no_grad():
        logits = model(torch.from_numpy(test_x)).numpy().astype("<f4")
        train_hits = (model(torch.from_numpy(train_x)).argmax(1).numpy() == train_y).mean()
    predictions = logits.argmax(1).astype("<i4")
    hits = int((predictions == test_y).sum())
    print(f"training accuracy {100 * train_hits:.2f} % of {len(train_x)}")
    print(f"held-out accuracy {100 * hits / len(test_y):.2f} % ({hits} of {len(test_y)})")
    # A tutorial compares its predictions with these. A near tie would make the comparison depend on
    # rounding.
    ranked = np.sort(logits, axis=1)
    gap = (ranked[:, -1] - ranked[:, -2]).min()
    print(f"smallest gap between the two largest logits: {gap:.4f}")
    if hits < 0.98 * len(test_y):
        raise SystemExit("held-out accuracy is below 98 %: nothing written")

    os.makedirs(args.out, exist_ok=True)
    write_tensors(
        os.path.join(args.out, "digits_weights.bin"),
        [(name, value.numpy().astype("<f4")) for name, value in model.state_dict().items()])
    write_tensors(
        os.path.join(args.out, "digits_test.bin"),
        [("images", test_x), ("labels", test_y), ("logits", logits), ("predictions", predictions)])
    write_tensors(os.path.join(args.out, "digits_train.bin"), training_set())


if __name__ == "__main__":
    main()
