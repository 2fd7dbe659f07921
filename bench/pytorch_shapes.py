#!/usr/bin/env python3
"""Trains PyTorch models on the drawn shapes and prints the fraction of unseen images that they classify correctly.

    foldgrad data synth shapes DIR --count 128000 --test-count 5000
    python pytorch_shapes.py DIR [linear] [perceptron] [convolutions]

As a task for attention, the shapes must be out of reach of a linear model and hard for a perceptron.
"""
import argparse
import pathlib

import numpy as np
import torch
from torch import nn

CLASSES = 10
BATCH = 256
RECORD = 1 + 3 * 32 * 32  # bytes: the class, then red, green and blue planes


def read(paths):
    records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, RECORD) for path in paths])
    labels = torch.from_numpy(records[:, 0].astype(np.int64))
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()), labels


def prepared(images):
    return images.float() / 127.5 - 1


def convolutions():
    layers, channels = [], 3
    for out in (32, 64, 128, 128):
        layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


MODELS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, CLASSES)),
    "perceptron": lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 512), nn.ReLU(), nn.Linear(512, 512),
                                        nn.ReLU(), nn.Linear(512, CLASSES)),
    "convolutions": convolutions,
}


def train(model, images, labels, updates):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    order = torch.randperm(len(labels))
    for update in range(updates):
        batch = order[torch.arange(update * BATCH, (update + 1) * BATCH) % len(order)]
        loss = nn.functional.cross_entropy(model(prepared(images[batch])), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def right(model, images, labels):
    model.eval()
    return sum(int((model(prepared(x)).argmax(1) == y).sum())
               for x, y in zip(images.split(BATCH), labels.split(BATCH))) / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--updates", type=int, default=1000)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]}; there are: {', '.join(MODELS)}")
    images, labels = read(sorted(arguments.directory.glob("data_batch_*.bin")))
    unseen = read([arguments.directory / "test_batch.bin"])
    for name in arguments.models:
        torch.manual_seed(1)
        model = MODELS[name]()
        train(model, images, labels, arguments.updates)
        print(f"{name}: {right(model, *unseen):.1%} of {len(unseen[1])} unseen images after {arguments.updates} "
              f"updates on batches of {BATCH} from {len(labels)} images", flush=True)


if __name__ == "__main__":
    main()
