#!/usr/bin/env python3
"""The grid of configs/nft: six recipes, each at four learning rates, and a table of what they reach.

    bench/nft_grid.py --out runs/nft                     # 24 runs of 100 epochs, as the configurations say: for a GPU
    bench/nft_grid.py --out runs/nft-small --small       # 24 runs of 2,000 updates with a smaller model
    bench/nft_grid.py --out runs/nft --table             # of the runs that are there

A cell is the best top-1 on the images that are held out, in percent, or NaN where training diverged. Runs that are
interrupted go on when it is called again, and those that are finished stay. Whatever stands behind -- goes to
`foldgrad train`: -- --device cuda --data-dir DIRECTORY.
"""
import argparse
import json
import os
import subprocess
import sys

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECIPES = ["pre-ln", "post-ln", "none", "none-ws", "none-ws-agc", "none-tfixup"]
RATES = ["0.1", "0.01", "0.001", "0.0001"]
SMALL = ["model.width=192", "model.ffn_width=384", "model.layers=6", "model.heads=3", "train.epochs=0",
         "train.steps=2000", "train.dtype=bf16", "validate.every=500", "output.save_every=500"]
FINISHED, DIVERGED = 0, 5  # exit codes


def events(run):
    path = os.path.join(run, "log.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def cell(run):
    log = events(run)
    if any(event["event"] == "diverged" for event in log):
        return "NaN"
    scores = [event["top1"] for event in log if event["event"] == "validate" and event["top1"] is not None]
    text = f"{max(scores):.2f}" if scores else "-"
    return text if any(event["event"] == "end" for event in log) else text + " (unfinished)"


def table(out, recipes, rates):
    rows = [["recipe", *rates]] + [[recipe, *(cell(run_of(out, recipe, rate)) for rate in rates)] for recipe in recipes]
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def run_of(out, recipe, rate):
    return os.path.join(out, f"{recipe}-{rate}")


def train(program, recipe, run, settings, more):
    command = [program, "train", os.path.join(SOURCES, "configs/nft", recipe + ".toml"), "--out", run, "--resume"]
    for setting in settings:
        command += ["--set", setting]
    print(" ".join(command + more), file=sys.stderr, flush=True)
    code = subprocess.run(command + more, stdout=subprocess.DEVNULL).returncode
    if code not in (FINISHED, DIVERGED):
        sys.exit(f"{run}: foldgrad ended with exit code {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="directory of the runs")
    parser.add_argument("--program", default=os.path.join(SOURCES, "build/release/foldgrad"))
    parser.add_argument("--small", action="store_true", help="a smaller model and 2,000 updates, for a CPU")
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES)
    parser.add_argument("--rates", nargs="+", default=RATES)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings")
    parser.add_argument("--table", action="store_true", help="train nothing")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, more = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    for recipe in args.recipes if not args.table else []:
        for rate in args.rates:
            run = run_of(args.out, recipe, rate)
            if not any(event["event"] in ("end", "diverged") for event in events(run)):
                settings = (SMALL if args.small else []) + [f"train.lr={rate}"] + args.settings
                train(args.program, recipe, run, settings, more)
    print(table(args.out, args.recipes, args.rates), end="")


if __name__ == "__main__":
    main()
