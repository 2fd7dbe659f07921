#!/usr/bin/env python3
"""Trains the same model on the CPU and on a GPU, in f32 and from the same seed, and compares the losses of every update.

    bench/device_curves.py --program build/cuda/foldgrad [--device cuda] [--steps 100] [--out DIRECTORY]

Both add in other orders, and every update carries the difference on. Prints one JSON object; exit code 1 when a loss
differs by more than --limit of its size.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def losses(program, device, steps, out):
    run = os.path.join(out, device)
    settings = {"train.dtype": "f32", "train.steps": steps, "train.warmup": steps // 10, "norm.un.warmup": steps // 5,
                "output.log_every": 1, "validate.every": steps}
    command = [program, "train", os.path.join(SOURCES, "configs/numbers-un.toml"), "--out", run, "--device", device]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(run, "log.jsonl")) as log:
        return [event["loss"] for event in map(json.loads, log) if event["event"] == "train"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(SOURCES, "build/cuda/foldgrad"))
    parser.add_argument("--device", default="cuda", help="beside the CPU (default: cuda)")
    parser.add_argument("--steps", type=int, default=100, help="(default: 100)")
    parser.add_argument("--limit", type=float, default=1e-3, help="(default: 1e-3)")
    parser.add_argument("--out", help="keep the runs here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = arguments.out or scratch
        cpu, other = (losses(arguments.program, device, arguments.steps, out) for device in ("cpu", arguments.device))
    if len(cpu) != arguments.steps or len(other) != arguments.steps:
        sys.exit(f"{len(cpu)} and {len(other)} losses of {arguments.steps} updates")
    differences = [abs(a - b) / abs(a) for a, b in zip(cpu, other)]
    worst = max(range(len(differences)), key=differences.__getitem__)
    print(json.dumps({"device": arguments.device, "steps": arguments.steps, "largest_relative_difference":
                      differences[worst], "at_step": worst + 1, "last_loss": [cpu[-1], other[-1]]}))
    # Written so that NaN fails.
    sys.exit(not all(difference <= arguments.limit for difference in differences))


if __name__ == "__main__":
    main()
