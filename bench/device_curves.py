#!/usr/bin/env python3
"""Trains on Multi30k with UN in f32 on a device, and compares the losses of the updates with a file of CPU losses.

    bench/device_curves.py --program build/kit/foldgrad --reference FILE [--device cuda]
    bench/device_curves.py --program build/release/foldgrad --reference FILE --write     makes the file, on the CPU

The data come from data/ next to this folder, or from $FOLDGRAD_DATA. Devices add numbers in different orders, and the
difference grows with every update, so the first losses must agree one by one, and the last ones in their mean. The
tolerances are more than ten times the differences between the CPU products with AVX2 and with AVX-512 (8e-5 and 2e-4).
Prints one JSON object; the exit code is 1 if the losses do not agree.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent
STEPS, FIRST, LAST = 300, 40, 100
SETTINGS = {"train.dtype": '"f32"', "train.steps": STEPS, "train.warmup": 30, "norm.un.warmup": 60, "train.seed": 1,
            "output.log_every": 1, "validate.every": STEPS}


def losses(program, device, out):
    command = [program, "train", SOURCES / "configs/multi30k-un.toml", "--out", out, "--device", device]
    if (SOURCES / "data/multi30k").is_dir():
        command += ["--data-dir", SOURCES / "data"]
    for key, value in SETTINGS.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    with open(Path(out) / "log.jsonl") as log:
        return [event["loss"] for event in map(json.loads, log) if event["event"] == "train"]


def relative(a, b):
    return abs(a - b) / abs(b)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", default="cuda", help="(default: cuda)")
    parser.add_argument("--reference", required=True, type=Path, help="file of CPU losses")
    parser.add_argument("--write", action="store_true", help="train on the CPU and write the file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        got = losses(options.program, "cpu" if options.write else options.device, os.path.join(scratch, "run"))
    if len(got) != STEPS:
        sys.exit(f"the log must have {STEPS} losses, got {len(got)}")
    if options.write:
        options.reference.write_text(json.dumps(got) + "\n")
        return
    expected = json.loads(options.reference.read_text())
    worst = max(map(relative, got[:FIRST], expected[:FIRST]))
    mean = relative(sum(got[-LAST:]), sum(expected[-LAST:]))
    print(json.dumps({"device": options.device, f"largest_difference_of_{FIRST}": worst,
                      f"difference_of_the_last_{LAST}": mean, "last_loss": [got[-1], expected[-1]]}))
    # NaN fails, since no comparison with it is true.
    sys.exit(not (worst <= 1e-3 and mean <= 5e-3))


if __name__ == "__main__":
    main()
