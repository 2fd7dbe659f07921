#!/usr/bin/env python3
"""Runs inference_bench, CTranslate2, onnxruntime and PyTorch in turn, several times, and prints them side by side.

    python compare_inference.py --build build/release [--rounds 3] [--cpu-time] [--json results/inference.json]

PyTorch and onnxruntime run our model with layer normalization, from its files; CTranslate2 one of the same sizes. They
are installed from the Python registry into the virtual environment of compare.py. With --cpu-time and --threads 1 the
table means something on a busy machine too.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare import HERE, spread, torch_python

PACKAGES = ["ctranslate2", "onnxruntime", "onnx"]
# Script -> its arguments, MODELS being the folder of what write_models() wrote.
PEERS = {"ctranslate2_decoding.py": [], "onnxruntime_encoder.py": ["MODELS/ln", "--exported", "MODELS/onnx"],
         "pytorch_inference.py": ["MODELS/ln"]}


def python_with_packages():
    python = torch_python()
    if subprocess.run([python, "-c", "import " + ", ".join(PACKAGES)], capture_output=True).returncode:
        print("installing", *PACKAGES, file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def run_ours(program, arguments):
    """(context, NAME/NORMALIZER/DTYPE -> median seconds, the same -> share of the peak in %)."""
    command = [program, "--benchmark_format=json", "--benchmark_repetitions=5", "--benchmark_min_time=0.05",
               "--benchmark_enable_random_interleaving=true", f"--benchmark_filter={arguments.filter}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads)})
    result = json.loads(done.stdout)
    seconds, shares = {}, {}
    for b in result["benchmarks"]:
        if b.get("aggregate_name") == "median":
            name = b["run_name"].removesuffix("/process_time/real_time")
            ms = b["cpu_time" if arguments.cpu_time else "real_time"]
            seconds[name] = ms / 1e3
            shares[name] = b["of_peak_%"] * b["real_time"] / ms if "of_peak_%" in b else None
    return result["context"], seconds, shares


def write_models(build, models):
    subprocess.run([build / "inference_bench", f"--save={models}/ln"], check=True)
    # A build without ONNX says so, and onnxruntime then runs PyTorch's export alone.
    subprocess.run([build / "foldgrad", "export", f"{models}/ln", "--to", "onnx", "-o", f"{models}/onnx"],
                   stdout=subprocess.DEVNULL)


def run_peer(python, script, models, arguments):
    command = [python, HERE / script, *(word.replace("MODELS", models) for word in PEERS[script])]
    command += ["--threads", str(arguments.threads)] + ["--cpu-time"] * arguments.cpu_time
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result.pop("context"), {name: statistics.median(seconds) for name, seconds in result.items()}


def peers_of(name, theirs):
    """Those that do the same task; ours in bf16 are set beside their int8 too."""
    task, _, dtype = name.rsplit("/", 2)
    return {peer: s for peer, s in theirs.items()
            if peer.startswith(task + "/") and peer[len(task) + 1:].split("/")[0] in
            {"f32": ["f32"], "bf16": ["bf16", "int8"]}[dtype]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="folder of the build")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs of all (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="of all programs (default: 2)")
    parser.add_argument("--filter", default=".", help="only ours whose name matches this")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="whom to run (default: all)")
    parser.add_argument("--cpu-time", action="store_true", help="of all threads, instead of what a clock shows")
    parser.add_argument("--json", type=pathlib.Path, help="also write the table here")
    arguments = parser.parse_args()
    program = arguments.build / "inference_bench"
    for needed in (program, arguments.build / "foldgrad"):
        if not needed.exists():
            parser.error(f"{needed} does not exist; build the target {needed.name}")
    with tempfile.TemporaryDirectory() as models:
        if any(PEERS[script] for script in arguments.peers):
            write_models(arguments.build, models)
        compare(arguments, program, models)


def compare(arguments, program, models):
    python = python_with_packages()
    ours, theirs, shares, context = {}, {}, {}, {}
    for _ in range(arguments.rounds):
        found, seconds, limits = run_ours(program, arguments)
        context.update({k: found[k] for k in ("machine", "fma_GFLOP/s", "gemm", "date")})
        for name in seconds:
            ours.setdefault(name, []).append(1e3 * seconds[name])
            shares[name] = limits[name]
        for script in arguments.peers:
            found, seconds = run_peer(python, script, models, arguments)
            context.update(found)
            for name in seconds:
                theirs.setdefault(name, []).append(1e3 * seconds[name])

    context.update(rounds=arguments.rounds, time="cpu" if arguments.cpu_time else "wall")
    print(", ".join(f"{key} {value}" for key, value in context.items()))
    title = f"median of {arguments.rounds} rounds (spread)"
    print(f"{title:32} {'ms':>17} {'of peak':>8}  peers: their ms, their time / ours")
    rows = {}
    for name, values in sorted(ours.items()):
        ms = statistics.median(values)
        share = shares[name] and shares[name] / 100
        rows[name] = {"ms": ms, "spread": spread(values), "share_of_peak": share, "peers": {}}
        line = f"{name:32} {ms:9.2f} ({spread(values):4.0%}) " + (f"{shares[name]:7.0f}%" if shares[name] else " " * 8)
        for peer, other in peers_of(name, theirs).items():
            short = peer.removeprefix(name.rsplit("/", 2)[0] + "/")
            rows[name]["peers"][short] = {"ms": statistics.median(other), "ratio": statistics.median(other) / ms}
            line += f"  {short} {statistics.median(other):.2f} = {statistics.median(other) / ms:.2f}x"
        print(line)
    if arguments.json:
        arguments.json.write_text(json.dumps({"context": context, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
