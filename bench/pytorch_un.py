#!/usr/bin/env python3
"""Compares the times of foldgrad_torch's and PyTorch's eager normalizers on one thread: the table of docs/pytorch.md.

    python bench/pytorch_un.py [--rounds 60]

In each round, all normalizers run once, in random order, so that a busy machine slows them alike. Freed memory stays in
the process: otherwise glibc returns it to the system in some steps, and getting it back takes as long as a normalizer.
Prints the CPU milliseconds per step (median and quartiles over the rounds), and the median of the rounds' ratios to the
first of each group. The normalizers are past their warm-up.
"""
import argparse
import ctypes
import random
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from foldgrad_torch import MABN, UN, PNStar, fold, replace_norms  # noqa: E402

ROWS, WIDTH = 2048, 512
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LAYERS = {"nn.LayerNorm": nn.LayerNorm, "nn.RMSNorm": nn.RMSNorm, "nn.BatchNorm1d": nn.BatchNorm1d,
          "UN": lambda width: UN(width, warmup=5), "MABN": lambda width: MABN(width, warmup=5),
          "PNStar": lambda width: PNStar(width, warmup=5)}


def training_step(model, *shape):
    x, dy = torch.randn(*shape), torch.randn(*shape)

    def step():
        model.zero_grad()
        model(x.detach().requires_grad_()).backward(dy)

    return step


def inference(model, *shape):
    x = torch.randn(*shape)
    model.eval()

    def step():
        with torch.inference_mode():
            model(x)

    return step


def encoder(unified):
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(256), enable_nested_tensor=False),
                          nn.Linear(256, 256))
    if unified:
        replace_norms(model, warmup=5)
        for _ in range(8):
            model(torch.randn(4, 16, 256)).sum().backward()
    return model


def groups():
    """Yields (title, {name: step}) for each group. The other steps of a group are compared with its first."""
    yield f"module, forward and backward, [{ROWS}, {WIDTH}]", {
        name: training_step(make(WIDTH), ROWS, WIDTH) for name, make in LAYERS.items()}
    yield "nn.TransformerEncoder, 2 layers of 256, forward and backward, [8, 64, 256]", {
        "with nn.LayerNorm": training_step(encoder(False), 8, 64, 256),
        "with UN": training_step(encoder(True), 8, 64, 256)}
    unified = encoder(True).eval()
    yield "the same at inference, [8, 64, 256]", {
        "with nn.LayerNorm": inference(encoder(False), 8, 64, 256), "with UN": inference(unified, 8, 64, 256),
        "with UN, folded": inference(fold(unified)[0], 8, 64, 256)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=60, help="(default: 60)")
    rounds = options.parse_args().rounds
    if sys.platform == "linux":
        for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
            ctypes.CDLL(None).mallopt(parameter, 32 << 20)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    warnings.simplefilter("ignore")  # about RMSNorm's input, for example
    print(f"PyTorch {torch.__version__}, {rounds} rounds")
    for group, steps in groups():
        times = {name: [] for name in steps}
        for turn in range(rounds + 8):
            for name, step in random.sample(list(steps.items()), len(steps)):
                start = time.process_time()
                step()
                if turn >= 8:
                    times[name].append(1e3 * (time.process_time() - start))
        print(f"\n| {group} | ms | quartiles | ratio |\n|---|---|---|---|")
        first = next(iter(times.values()))
        for name, taken in times.items():
            low, median, high = statistics.quantiles(taken, n=4)
            ratio = statistics.median(a / b for a, b in zip(taken, first))
            print(f"| {name} | {median:.2f} | {low:.2f} to {high:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
