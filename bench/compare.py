#!/usr/bin/env python3
"""Runs one of our benchmarks and its counterparts in turn, several times, and prints their times side by side.

    python compare.py --build build/release [--rounds 3] [--filter softmax] [--json results/ops.json]
    python compare.py --build build/release --program transformer_bench
    python compare.py --build build/release --program vision_bench --filter 'vit_s4/(step|infer)' -- --onnxruntime
    python compare.py --build build/release --program inference_bench [--threads 1 --cpu-time]

The counterparts are in PyTorch and, for inference_bench, also in CTranslate2 and onnxruntime. For inference_bench,
PyTorch and onnxruntime load our model with layer normalization from its files; CTranslate2 runs a model of the same
sizes. The filter chooses our benchmarks, with which the counterparts are compared. Arguments after -- are passed to the
counterparts. With --cpu-time and --threads 1, the table of inference_bench is meaningful even on a busy machine.
scripts/python.sh installs the packages.

"of limit" is our speed in percent of a limit of this machine, if there is one; ops_bench reports the speed of its
fastest iteration. The limit of an f32 training step is its floor: the time of its products at the peak of fused
multiply-adds, plus that of the bytes of its other operations at the rate of a copy. The limit of another benchmark is
the peak, or the fastest of three copies of the same number of bytes. "of copy_" is our median bandwidth in percent of
the bandwidth of PyTorch's copy_ of 16 MiB. For each counterpart, the table has its time, and this time divided by ours.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Arguments of each counterpart: NAMES is replaced by a regular expression for names, MODELS by the folder of
# write_models().
COUNTERPARTS = {
    "ops_bench": {"pytorch_ops.py": ["--filter", "NAMES"]},
    "transformer_bench": {"pytorch_transformer.py": ["--filter", "NAMES"]},
    "vision_bench": {"pytorch_vision.py": ["--filter", "NAMES"]},
    "language_bench": {"pytorch_language.py": ["--filter", "NAMES"]},
    "normalizer_bench": {"pytorch_normalizers.py": ["--filter", "NAMES"]},
    "inference_bench": {"ctranslate2_decoding.py": [], "pytorch_inference.py": ["MODELS/ln"],
                        "onnxruntime_encoder.py": ["MODELS/ln", "--exported", "MODELS/onnx"]},
}
PACKAGES = {"vision_bench": ["timm"], "inference_bench": ["ctranslate2", "onnxruntime", "onnx", "safetensors"]}
# Each repetition makes a new model, whose second step is still slower than later ones.
LENGTH = ["--benchmark_repetitions=5", "--benchmark_min_time=0.05"]
LENGTH_OF = {"vision_bench": ["--benchmark_repetitions=3", "--benchmark_min_time=1.5"],
             "language_bench": ["--benchmark_repetitions=3", "--benchmark_min_time=1.5"],
             "inference_bench": [*LENGTH, "--benchmark_enable_random_interleaving=true"]}


def run_ours(program, o):
    """Returns (context, {name: row}) of one run. A row has the medians of "ms", of "share", the fraction of the
    machine's limit (or None), and of "MB", the traffic of a memory-bound benchmark (or None)."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [program, f"--benchmark_out={out.name}", *LENGTH_OF.get(program.name, LENGTH)]
        if o.filter:
            command.append(f"--benchmark_filter={o.filter}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "OMP_NUM_THREADS": str(o.threads)})
        result = json.load(open(out.name))
    found = {}
    for b in result["benchmarks"]:
        if b.get("aggregate_name") == "median":
            name = re.sub("(/process_time)?/(manual|real)_time$", "", b["run_name"])
            ms = b["cpu_time" if o.cpu_time else "real_time"]
            share = b.get("of_copy_%", b.get("of_floor_%", b.get("of_peak_%")))
            found[name] = {"ms": ms, "share": share and share / 100 * b["real_time"] / ms, "MB": b.get("MB")}
    return result["context"], found


def write_models(build, models):
    subprocess.run([build / "inference_bench", f"--save={models}/ln"], check=True)
    # A build without ONNX says so; then onnxruntime runs only PyTorch's export.
    subprocess.run([build / "foldgrad", "export", f"{models}/ln", "--to", "onnx", "-o", f"{models}/onnx"],
                   stdout=subprocess.DEVNULL)


def peers_of(name, theirs):
    """Returns {label: name} of the counterparts' benchmarks of the same task. PyTorch has no Unified Normalization, so
    our inference is compared with PyTorch's layer normalization. Our bf16 decoding and encoders are also compared with
    int8."""
    task = name.rsplit("/", 2)[0]
    if task.split("/")[0] in ("encoder", "greedy", "beam5"):
        kinds = ["f32"] if name.endswith("/f32") else ["bf16", "int8"]
        return {peer.removeprefix(task + "/"): peer for peer in theirs
                if peer.startswith(task + "/") and peer.removeprefix(task + "/").split("/")[0] in kinds}
    peer = re.sub("/infer/[^/]+/", "/infer/ln/", name)
    return {"PyTorch": peer} if peer in theirs else {}


def run_theirs(python, script, names, models, o, more):
    """Returns (context, {name: median milliseconds}) of one run."""
    wanted = {re.sub("/infer/[^/]+/", "/infer/ln/", re.sub("/(forward|backward)$", "", name)) for name in names}
    filled = {"NAMES": f"^({'|'.join(map(re.escape, sorted(wanted)))})$", "MODELS": models}
    words = [re.sub("NAMES|MODELS", lambda m: filled[m[0]], word) for word in COUNTERPARTS[o.program][script]]
    command = [python, HERE / script, *words, "--threads", str(o.threads), *["--cpu-time"] * o.cpu_time, *more]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result.pop("context"), {name: 1e3 * statistics.median(seconds) for name, seconds in result.items()}


def measure(o, more, program, models):
    """Returns (context, {name: our rows of all rounds}, {name: the counterparts' milliseconds of all rounds})."""
    python = subprocess.run([HERE.parent / "scripts/python.sh", "numpy", "torch", *PACKAGES.get(o.program, [])],
                            check=True, capture_output=True, text=True).stdout.strip()
    context, ours, theirs = {}, {}, {}
    for _ in range(o.rounds):
        found, rows = run_ours(program, o)
        if not rows:
            break
        context.update({k: found[k] for k in ("machine", "copy_GB/s", "fma_GFLOP/s", "gemm", "date") if k in found})
        for name, row in rows.items():
            ours.setdefault(name, []).append(row)
        for script in o.peers or COUNTERPARTS[o.program]:
            found, medians = run_theirs(python, script, rows, models, o, more)
            context.update(found)
            for name, ms in medians.items():
                theirs.setdefault(name, []).append(ms)
    return context, ours, theirs


def timed(values):
    median = statistics.median(values)
    return {"ms": median, "spread": (max(values) - min(values)) / median}


def table(ours, theirs, copy):
    """Returns {name: its row for --json}. `copy` is a second limit, or None: the number of megabytes that
    PyTorch's copy_ reads and writes in a millisecond."""
    rows = {}
    for name, rounds in ours.items():
        row = rows[name] = timed([r["ms"] for r in rounds])
        if shares := [r["share"] for r in rounds if r["share"] is not None]:
            row["share_of_limit"] = statistics.median(shares)
        if copy and rounds[0]["MB"]:
            row["share_of_pytorch_copy"] = rounds[0]["MB"] / row["ms"] / copy
        row["peers"] = {label: timed(theirs[peer]) for label, peer in peers_of(name, theirs).items()}
        for peer in row["peers"].values():
            peer["ratio"] = peer["ms"] / row["ms"]
    return rows


def line(name, row):
    share = lambda key: f"{row[key]:8.0%}" if key in row else " " * 8
    peers = (f"  {label} {p['ms']:.3f} ({p['spread']:.0%}) = {p['ratio']:.2f}x" for label, p in row["peers"].items())
    ours = f"{name:44} {row['ms']:9.3f} ({row['spread']:4.0%})"
    return f"{ours} {share('share_of_limit')} {share('share_of_pytorch_copy')}{''.join(peers)}".rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="build folder with the program")
    parser.add_argument("--program", choices=COUNTERPARTS, default="ops_bench", help="benchmark (default: ops_bench)")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs of each program (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each program (default: 2)")
    parser.add_argument("--filter", default="", help="only benchmarks whose name matches this regular expression")
    parser.add_argument("--peers", nargs="*", help="which counterparts to run (default: all)",
                        choices=COUNTERPARTS["inference_bench"])
    parser.add_argument("--cpu-time", action="store_true", help="CPU time of all threads instead of wall-clock time")
    parser.add_argument("--json", type=pathlib.Path, help="also write the table to this file")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    o, more = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    program = o.build / o.program
    if not program.exists():
        parser.error(f"{program} does not exist; build the target {o.program}")
    if o.program != "inference_bench" and (o.cpu_time or o.peers):
        parser.error("--cpu-time and --peers require --program inference_bench")
    with tempfile.TemporaryDirectory() as models:
        if o.program == "inference_bench":
            write_models(o.build, models)
        context, ours, theirs = measure(o, more, program, models)
    if not ours:
        parser.error(f"--filter {o.filter}: {o.program} has no benchmark whose name matches this")
    copy = None
    if "copy/16MiB" in theirs:
        context["pytorch_copy_ms"] = statistics.median(theirs.pop("copy/16MiB"))
        copy = 2 * 2**24 / 1e6 / context["pytorch_copy_ms"]
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    context.update(commit=commit.stdout.strip(), rounds=o.rounds, time="cpu" if o.cpu_time else "wall")
    rows = table(ours, theirs, copy)
    print(", ".join(f"{key} {value}" for key, value in context.items()))
    title = f"median of {o.rounds} rounds (spread)"
    print(f"{title:44} {'foldgrad ms':>16} {'of limit':>8} {'of copy_':>8}  counterparts: ms (spread) = times ours")
    for name, row in rows.items():
        print(line(name, row))
    if alone := [name for name, row in rows.items() if not row["peers"]]:
        print("no counterpart for", ", ".join(alone))
    if o.json:
        o.json.write_text(json.dumps({"context": context, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
