#!/usr/bin/env python3
"""Runs a benchmark of ours and its counterpart in PyTorch in turn, several times, and prints both side by side.

    python compare.py --build build/release [--rounds 3] [--filter softmax] [--json results/ops.json]
    python compare.py --build build/release --program transformer_bench
    python compare.py --build build/release --program vision_bench --filter 'vit_s4/(step|infer)' -- --onnxruntime

"of limit" is the share of what this machine can do: of the peak of fused multiply-adds, or of the fastest of three copies
of as many bytes, of our fastest iteration; models have none. "of copy_" is the share, of the median, of what PyTorch's copy_
of 16 MiB moves. The counterpart times what stands beside the benchmarks that the filter chose.

Whatever follows -- goes to the counterpart. PyTorch is installed from the Python registry into the virtual environment
$FOLDGRAD_VENV (default: ~/.cache/foldgrad/venv).
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
import venv

HERE = pathlib.Path(__file__).resolve().parent
COUNTERPARTS = {"ops_bench": "pytorch_ops.py", "transformer_bench": "pytorch_transformer.py",
                "vision_bench": "pytorch_vision.py"}
# Each repetition makes a new model, whose second step is still slower than those after it.
LENGTH = ["--benchmark_repetitions=5", "--benchmark_min_time=0.05"]
LENGTH_OF = {"vision_bench": ["--benchmark_repetitions=3", "--benchmark_min_time=1.5"]}


def torch_python():
    """The interpreter of the virtual environment with PyTorch, which is made when absent."""
    where = pathlib.Path(os.environ.get("FOLDGRAD_VENV", pathlib.Path.home() / ".cache/foldgrad/venv"))
    python = where / "bin/python"
    if not python.exists():
        venv.create(where, with_pip=True)
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        print(f"installing PyTorch into {where}", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
    return python


def run_ours(program, name_filter, threads):
    """(context, name -> median milliseconds, name -> share of the machine's limit in %, if there is one, name -> MB that
    must be moved, for those that memory limits) of one run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [program, f"--benchmark_out={out.name}", *LENGTH_OF.get(program.name, LENGTH)]
        if name_filter:
            command.append(f"--benchmark_filter={name_filter}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        result = json.load(open(out.name))
    medians, shares, megabytes = {}, {}, {}
    for b in result["benchmarks"]:
        if b.get("aggregate_name") == "median":
            name = re.sub("(/process_time)?/(manual|real)_time$", "", b["run_name"])
            medians[name] = b["real_time"]
            if (share := b.get("of_copy_%", b.get("of_peak_%"))) is not None:
                shares[name] = share
            if "MB" in b:
                megabytes[name] = b["MB"]
    return result["context"], medians, shares, megabytes


def peer_of(name):
    """PyTorch has no Unified Normalization; inference is set beside its own with layer normalization."""
    return re.sub("/infer/[^/]+/", "/infer/ln/", name)


def run_torch(python, script, names, threads, more):
    """(context, name -> median milliseconds) of one run of the benchmarks that stand beside `names`."""
    peers = {re.sub("/(forward|backward)$", "", peer_of(name)) for name in names}
    name_filter = f"^({'|'.join(map(re.escape, sorted(peers)))})$"
    command = [python, HERE / script, "--threads", str(threads), "--filter", name_filter, *more]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    context = result.pop("context")
    return context, {name: 1e3 * statistics.median(seconds) for name, seconds in result.items()}


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="folder of the build, with the program in it")
    parser.add_argument("--program", choices=COUNTERPARTS, default="ops_bench", help="what to run (default: ops_bench)")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs of both (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="of both programs (default: 2)")
    parser.add_argument("--filter", default="", help="only benchmarks whose name matches this regular expression")
    parser.add_argument("--json", type=pathlib.Path, help="also write the table here")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, more = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    program = arguments.build / arguments.program
    if not program.exists():
        parser.error(f"{program} does not exist; build the target {arguments.program}")
    python = torch_python()

    ours, theirs, shares, context = {}, {}, {}, {}
    for _ in range(arguments.rounds):
        found, medians, limits, megabytes = run_ours(program, arguments.filter, arguments.threads)
        context.update({k: found[k] for k in ("machine", "copy_GB/s", "fma_GFLOP/s", "gemm", "date") if k in found})
        for name, ms in medians.items():
            ours.setdefault(name, []).append(ms)
            if name in limits:
                shares.setdefault(name, []).append(limits[name])
        if not medians:
            parser.error(f"--filter {arguments.filter}: {arguments.program} has no benchmark whose name matches this")
        found, medians = run_torch(python, COUNTERPARTS[arguments.program], medians, arguments.threads, more)
        context.update(found)
        for name, ms in medians.items():
            theirs.setdefault(name, []).append(ms)

    # Bytes that PyTorch's copy_ reads and writes in a millisecond: a second limit beside the peak.
    copy = None
    if "copy/16MiB" in theirs:
        context["pytorch_copy_ms"] = statistics.median(theirs.pop("copy/16MiB"))
        copy = 2 * 2**24 / 1e6 / context["pytorch_copy_ms"]

    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    context.update(commit=commit, rounds=arguments.rounds)
    print(", ".join(f"{key} {value}" for key, value in context.items()))
    print(f"{'median of ' + str(arguments.rounds) + ' rounds (spread)':44} {'foldgrad ms':>17} {'of limit':>9} {'of copy_':>9} {'PyTorch ms':>17} {'ratio':>6}")
    rows, alone = {}, []
    for name in ours:
        ms = statistics.median(ours[name])
        rows[name] = {"ms": ms, "spread": spread(ours[name])}
        line = f"{name:44} {ms:9.3f} ({spread(ours[name]):4.0%})"
        if name in shares:
            share = statistics.median(shares[name])
            rows[name]["share_of_limit"] = share / 100
            line += f" {share:8.0f}%"
        else:
            line += f" {'':9}"
        of_copy = copy and name in megabytes and megabytes[name] / ms / copy
        if of_copy:
            rows[name]["share_of_pytorch_copy"] = of_copy
        line += f" {of_copy:8.0%}" if of_copy else f" {'':8}"
        if peer := theirs.get(peer_of(name)):
            other = statistics.median(peer)
            rows[name].update(pytorch_ms=other, pytorch_spread=spread(peer), ratio=other / ms)
            line += f" {other:9.3f} ({spread(peer):4.0%}) {other / ms:6.2f}"
        else:
            alone.append(name)
        print(line.rstrip())
    if alone:
        print(f"{COUNTERPARTS[arguments.program]} has nothing to set beside", ", ".join(alone))
    if arguments.json:
        arguments.json.write_text(json.dumps({"context": context, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
