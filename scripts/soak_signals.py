#!/usr/bin/env python3
"""scripts/soak signals [--count 500] [--seed 1] [--program build/emulate/foldgrad]

A training is sent SIGINT or SIGTERM at random times and resumed, until so many have been sent. Each must have left with
130 after saving, or have finished; and what it ends with must be, bit for bit and event for event, what a training that
nobody disturbed ends with. Prints a line of figures; exits with 1 after the first failure, which leaves its
directory."""
import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """
model = {width = 32, ffn_width = 64, heads = 2, encoder_layers = 1, decoder_layers = 1}
norm = {name = "un", un = {warmup = 20}}
train = {steps = 400, max_tokens = 300, warmup = 20}
validate = {every = 150, beam = 1}
output = {log_every = 7, save_every = 50}
"""


def write_data(directory):
    words = random.Random(0)
    for name, lines in [("train", 400), ("valid", 10)]:
        text = [[f"w{words.randrange(40)}" for _ in range(words.randrange(3, 12))] for _ in range(lines)]
        for language, order in [("de", 1), ("en", -1)]:
            (directory / f"{name}.{language}").write_text("".join(" ".join(line[::order]) + "\n" for line in text))
    (directory / "config.toml").write_text(CONFIG)


def start(program, directory, run):
    command = [program, "train", "config.toml", "--data-dir", ".", "--out", run, "--resume"]
    errors = open(directory / "errors", "w")
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=errors,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})


def handles(process, number):
    """Whether it has come to the point from which on it handles this signal."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return int(caught, 16) >> (number - 1) & 1


def result(run):
    """Digests of the last checkpoint, and the numbers of the log without times."""
    files = sorted((run / "checkpoints" / (run / "checkpoints/LATEST").read_text().strip()).glob("*.safetensors"))
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for event in events:
        for key in ("seconds", "tokens_per_second"):
            event.pop(key, None)
    return [hashlib.sha256(f.read_bytes()).hexdigest() for f in files], [e for e in events if e["event"] != "start"]


def signals(options):
    directory = Path(tempfile.mkdtemp(prefix="foldgrad-soak-"))
    write_data(directory)
    began = time.monotonic()
    if start(options.program, directory, "whole").wait() != 0:
        sys.exit(f"soak: the undisturbed training failed: {directory}/errors")
    whole, duration = result(directory / "whole"), time.monotonic() - began
    rng = random.Random(options.seed)
    sent = saved = finished = 0
    while sent < options.count:
        run = f"run{finished}"
        while True:
            process = start(options.program, directory, run)
            while process.poll() is None and not handles(process.pid, signal.SIGTERM):
                time.sleep(0.001)
            try:
                code = process.wait(timeout=rng.uniform(0, duration / 3))
            except subprocess.TimeoutExpired:
                process.send_signal(rng.choice([signal.SIGINT, signal.SIGTERM]))
                sent += 1
                code = process.wait()
                saved += code == 130
            if code not in (0, 130):
                sys.exit(f"soak: exit code {code} after {sent} signals: {directory}/errors, {directory}/{run}")
            if code == 0:
                break
        if result(directory / run) != whole:
            sys.exit(f"soak: another result than undisturbed after {sent} signals: {directory}/{run}")
        finished += 1
    print(f"signals: {sent} sent, {saved} times 130, {finished} trainings with the bits and events of the undisturbed one")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=os.path.abspath, default=os.path.abspath("build/emulate/foldgrad"))
    signals(parser.parse_args())


if __name__ == "__main__":
    main()
