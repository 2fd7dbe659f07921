#!/usr/bin/env python3
"""Times training on two ranks of one thread each: ours over MPI, PyTorch's DistributedDataParallel over gloo.

    $(scripts/python.sh numpy torch) bench/ranks.py --build build/release [--rounds 3] [--steps 8] [--dtypes bf16]

Model, batch and update are those of "iwslt" in pytorch_transformer.py; each rank has 32 of the 64 pairs. Our times are
those of updates of `foldgrad train`, including making batches, on a generated text with 32 tokens on each side of every
pair. Both also run as one process of two threads. Each round runs all of them in turn. A row has the median, minimum
and maximum of the seconds per step and of the rounds' ratios. Rounds are printed to stderr as they end.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from pytorch_transformer import ACTIVATION_DROPOUT, ATTENTION_DROPOUT, TASKS, step_of
except ImportError as e:
    sys.exit(f"ranks: {e}; run this with $(scripts/python.sh numpy torch)")

BATCH, LENGTH, SIZES = TASKS["iwslt"]
WARMUP = 3  # first steps of each run, which are not counted
LAUNCHES = {"2 processes of 1 thread": (2, 1), "1 process of 2 threads": (1, 2)}
# Not bound to cores, like PyTorch's processes.
MPIRUN = "mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl_vader_single_copy_mechanism none".split()
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node".split()
CONFIG = """
model = {{width = {width}, ffn_width = {ffn}, heads = {heads}, encoder_layers = {layers}, decoder_layers = {layers}, \
dropout = {dropout}, attention_dropout = {attention_dropout}, activation_dropout = {activation_dropout}}}
data = {{source_dictionary = "dict.txt", target_dictionary = "dict.txt"}}
train = {{max_tokens = {max_tokens}, lr = 1e-4, schedule = "constant", warmup = 0, weight_decay = 0}}
validate = {{every = 1000000, beam = 1}}
output = {{log_every = 1, save_every = 1000000}}
""".format(**SIZES, attention_dropout=ATTENTION_DROPOUT, activation_dropout=ACTIVATION_DROPOUT,
           max_tokens=BATCH * LENGTH)


def write_inputs(work):
    words = [f"w{i}" for i in range(SIZES["vocabulary"] - 4)]  # four ids are special
    line = lambda: " ".join(random.choices(words, k=LENGTH - 1)) + "\n"  # the end token follows
    (work / "config.toml").write_text(CONFIG)
    (work / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    for name, pairs in ("train.de", 4 * BATCH), ("train.en", 4 * BATCH), ("valid.de", 1), ("valid.en", 1):
        (work / name).write_text("".join(line() for _ in range(pairs)))


def output_of(command, threads):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if done.returncode:
        sys.exit(f"ranks: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def our_seconds(o, work, dtype, processes, threads):
    launch = [*MPIRUN, "-n", str(processes)] if processes > 1 else []
    with tempfile.TemporaryDirectory() as run:
        output_of([*launch, o.build / "foldgrad", "train", work / "config.toml", "--out", run, "--data-dir", work,
                   "--device=cpu", f"--set=train.dtype={dtype}", f"--set=train.steps={WARMUP + o.steps}"], threads)
        events = map(json.loads, pathlib.Path(run, "log.jsonl").read_text().splitlines())
        updates = [e for e in events if e["event"] == "train"]
    assert all(round(e["tokens_per_second"] * e["seconds"]) == 2 * BATCH * LENGTH for e in updates), updates
    return [e["seconds"] for e in updates]


def pytorch_seconds(o, work, dtype, processes, threads):
    launch = [*TORCHRUN, str(processes)] if processes > 1 else []
    return json.loads(output_of([sys.executable, *launch, __file__, f"--steps={o.steps}", f"--rank={dtype}"], threads))


def run_rank(o):
    """Trains as one of PyTorch's processes. Rank 0 prints the seconds of its steps."""
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(rank)
    wrap = lambda model: model
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        # Buffers need not be broadcast, since the model's only buffer, the table of positions, never changes.
        wrap = lambda model: torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False,
                                                                       gradient_as_bucket_view=True)
    step, times = step_of(BATCH // ranks, LENGTH, SIZES, o.rank == "bf16", wrap), []
    for _ in range(WARMUP + o.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(times))


def line(title, rounds):
    """Returns a row of the table. `rounds` has, for each round, the seconds of our steps and of PyTorch's."""
    spread = lambda values: f"{statistics.median(values):6.3f} ({min(values):.3f}-{max(values):.3f})"
    ours, theirs = (spread([s for seconds in side for s in seconds]) for side in zip(*rounds))
    ratios = spread([statistics.median(theirs) / statistics.median(ours) for ours, theirs in rounds])
    return f"{title:30} {ours:>22} {theirs:>22} {ratios:>22}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="build folder (default: %(default)s)",
                        default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs of each program (default: 3)")
    parser.add_argument("--steps", type=int, default=8, help="updates of each run (default: 8)")
    parser.add_argument("--dtypes", nargs="+", choices=["bf16", "f32"], default=["bf16", "f32"])
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.rank:
        return run_rank(o)
    for file in (o.build / "foldgrad", o.build / "foldgrad_mpi.so"):
        if not file.exists():
            parser.error(f"{file} does not exist; build the targets foldgrad and foldgrad_mpi")
    if not shutil.which("mpirun"):
        parser.error("there is no mpirun; scripts/setup.sh installs it")
    cases, loads = {(dtype, launch): [] for dtype in o.dtypes for launch in LAUNCHES}, []
    with tempfile.TemporaryDirectory() as work:
        write_inputs(pathlib.Path(work))
        for _ in range(o.rounds):
            for (dtype, launch), rounds in cases.items():
                rounds.append([seconds(o, pathlib.Path(work), dtype, *LAUNCHES[launch])[WARMUP:]
                               for seconds in (our_seconds, pytorch_seconds)])
                loads.append(os.getloadavg()[0])
                print(line(f"{dtype}, {launch}", rounds[-1:]), f"  load {loads[-1]:.1f}", file=sys.stderr)
    print(f"PyTorch {torch.__version__}, load {min(loads):.1f}-{max(loads):.1f}, of which this program causes 2")
    title = f"{o.rounds} rounds of {o.steps} steps, seconds"
    print(f"{title:30} {'foldgrad':>22} {'PyTorch':>22} {'PyTorch / foldgrad':>22}")
    for (dtype, launch), rounds in cases.items():
        print(line(f"{dtype}, {launch}", rounds))


if __name__ == "__main__":
    main()
