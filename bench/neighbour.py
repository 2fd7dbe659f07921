#!/usr/bin/env python3
"""Times a training step next to busy neighbours, which this script starts and stops itself.

    $(scripts/python.sh numpy torch) bench/neighbour.py --build build/release [--rounds 3] [--step multi30k/step/f32]

A neighbour is a process that spins on one processor. It runs in the session of the benchmark or in a separate one: where
sched_autogroup_enabled is 1, Linux shares the processors first among sessions, then among the processes of each. The
programs are transformer_bench and the same step in PyTorch, with libgomp's default and with $GOMP_SPINCOUNT=4000. Each
row is a situation. A cell has the median, minimum and maximum of the rounds in milliseconds, and the median divided by
that of the same program without neighbours.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# name -> number of neighbours, whether they run in a separate session, their niceness
SITUATIONS = {
    "alone": (0, False, 0),
    "one, same session": (1, False, 0),
    "one, another session": (1, True, 0),
    "three, same session": (3, False, 0),
    "three, another session": (3, True, 0),
    "three at nice 19, same session": (3, False, 19),
}
PROGRAMS = {"foldgrad": {}, "PyTorch": {}, "PyTorch, 4,000 spins": {"GOMP_SPINCOUNT": "4000"}}


@contextlib.contextmanager
def neighbours(count, another_session, niceness):
    one = f"nice -n {niceness} '{sys.executable}' -c 'while True: pass' &"
    where = {"start_new_session": True} if another_session else {"process_group": 0}
    group = subprocess.Popen(["sh", "-c", one * count + " wait"], **where)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group.pid, signal.SIGKILL)
        group.wait()


def milliseconds(program, o):
    """Runs the program once. Returns the median time of its steps."""
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment.update(PROGRAMS[program], OMP_NUM_THREADS=str(o.threads))
    only = f"^{o.step}"
    if program.startswith("PyTorch"):
        command = [sys.executable, HERE / "pytorch_transformer.py", "--filter", only, "--threads", str(o.threads),
                   "--seconds", "5"]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return 1e3 * statistics.median(json.loads(done.stdout)[o.step])
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([o.build / "transformer_bench", f"--benchmark_filter={only}", f"--benchmark_out={out.name}",
                        "--benchmark_min_time=0.01", "--benchmark_repetitions=15"],
                       env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        steps = json.load(open(out.name))["benchmarks"]
    return next(s["real_time"] for s in steps if s.get("aggregate_name") == "median")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="build folder with transformer_bench")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs of each program (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each program (default: 2)")
    parser.add_argument("--step", default="multi30k/step/f32", help="name of the benchmark (default: multi30k/step/f32)")
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS), help="(default: all)")
    parser.add_argument("--situations", nargs="*", choices=SITUATIONS, default=list(SITUATIONS),
                        help="in addition to `alone`, which is always measured (default: all)")
    o = parser.parse_args()
    situations = [s for s in SITUATIONS if s == "alone" or s in o.situations]
    found = {(situation, program): [] for situation in situations for program in o.programs}
    for _ in range(o.rounds):
        for situation, program in found:
            with neighbours(*SITUATIONS[situation]):
                found[situation, program].append(milliseconds(program, o))
    for situation in situations:
        cells = []
        for program in o.programs:
            times, alone = found[situation, program], statistics.median(found["alone", program])
            median = statistics.median(times)
            cells.append(f"{program} {median:.0f} ({min(times):.0f} to {max(times):.0f}) = {median / alone:.2f}x")
        print(f"{situation:32} " + "  ".join(cells))


if __name__ == "__main__":
    main()
