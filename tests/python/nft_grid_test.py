"""bench/nft_grid.py trains what it says, says NaN where training diverged, and does not train twice."""
import json
import os
import sys
import tempfile

from setting import PROGRAM, SOURCES, call

SCRIPT = os.path.join(SOURCES, "bench", "nft_grid.py")
TINY = ["data.task=shapes", "data.train_images=16", "data.valid_images=10", "data.augment=", "model.patch=16",
        "model.width=8", "model.ffn_width=8", "model.heads=2", "model.layers=1", "train.batch=8", "train.steps=4",
        "validate.every=2", "output.log_every=1"]


def main():
    with tempfile.TemporaryDirectory() as out:
        options = [option for setting in TINY for option in ("--set", setting)]
        command = [sys.executable, SCRIPT, "--program", PROGRAM, "--out", out, "--small", "--recipes", "post-ln",
                   "none-ws-agc", "--rates", "0.01", "1e30", *options]
        first = call(*command)
        rows = [line.strip("| \n").split(" | ") for line in first.splitlines()]
        if rows[0] != ["recipe", "0.01", "1e30"] or [row[0] for row in rows[2:]] != ["post-ln", "none-ws-agc"]:
            sys.exit(f"the table is\n{first}")
        for recipe, score, diverged in rows[2:]:
            with open(os.path.join(out, f"{recipe}-0.01", "log.jsonl")) as file:
                events = [json.loads(line) for line in file]
            best = max(event["top1"] for event in events if event["event"] == "validate")
            if score != f"{best:.2f}" or diverged != "NaN":
                sys.exit(f"{recipe}: the row must be {best:.2f} and NaN, got {score} and {diverged}")
        before = {name: os.stat(os.path.join(out, name, "command.txt")).st_mtime_ns for name in os.listdir(out)}
        if call(*command) != first or call(*command, "--table") != first:
            sys.exit("called again, the table is another")
        if before != {name: os.stat(os.path.join(out, name, "command.txt")).st_mtime_ns for name in before}:
            sys.exit("called again, it trains again")


if __name__ == "__main__":
    main()
