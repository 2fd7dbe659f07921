"""Runs the stages of scripts/gpu_check.sh."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from programs import finish, launch  # noqa: E402
from shards import run_tests  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/kit"
STAGE_SECONDS = 100
# These tests come first: a fault in the engine makes most other tests fail, too. ladder_test covers tensor cores.
BASICS = ["engine_cuda_runtime_test", "engine_test", "engine_gemm_test", "ladder_test"]
# Few examples of each property suffice, since faults that only occur on a GPU are in the kernels, not in rare examples.
# Each test has few threads, since one process runs on each core.
OF_TESTS = {"RC_PARAMS": "max_success=10", "OMP_NUM_THREADS": "2"}
# Matches a result in the JSON of Google Benchmark.
TIMES = re.compile(r'"name": "([^"]+)",.*?"real_time": ([^,]+),.*?"time_unit": "(\w+)"', re.S)
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}


class Failed(Exception):
    pass


class Check:
    def __init__(self, out, seconds):
        self.out, self.logs = out, ROOT / "build/gpu_check"
        self.ends = time.monotonic() + seconds
        self.stages, self.tests, self.figures, self.fast = [], {}, {}, []
        self.machine = "unknown"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.out.mkdir(parents=True, exist_ok=True)

    def run(self, log, *command, **environment):
        """Runs the command and returns its output. Raises Failed with the end of the output."""
        child = launch(command, self.logs / log, environment)
        status = finish(child, self.stage_ends)
        text = (self.logs / log).read_text(errors="replace")
        if status != 0:
            raise Failed(f"{Path(command[0]).name}: {status}\n{text[-2000:]}")
        return text

    def bench(self, log, *command):
        """Runs a benchmark and keeps its times in milliseconds, even if it runs out of time and leaves half a file."""
        file = self.logs / f"{log}.json"
        try:
            self.run(f"{log}.log", *command, "--device=cuda", f"--benchmark_out={file}", "--benchmark_out_format=json")
        finally:
            for name, value, unit in TIMES.findall(file.read_text() if file.exists() else ""):
                name = re.sub("/(iterations:|manual_time).*", "", name)
                self.figures.setdefault(name, {})["foldgrad"] = float(value) * MILLISECONDS[unit]

    def pytorch(self, column, *more):
        text = self.run(f"{column}.log", sys.executable, ROOT / "bench/pytorch_transformer.py", "--device", "cuda",
                        "--seconds", "2", "--filter", "iwslt", *more)
        for name, times in json.loads(text.splitlines()[-1]).items():
            if name != "context":
                self.figures.setdefault(name, {})[column] = 1e3 * sorted(times)[len(times) // 2]

    def stage(self, name, run):
        began = time.monotonic()
        self.stage_ends = min(began + STAGE_SECONDS, self.ends)
        self.note = ""
        if self.ends - began < 10:
            result = "no time left"
        else:
            try:
                run(self)
                result = "passed"
            except Failed as failure:
                result, self.note = "failed", str(failure)
            except Exception as failure:  # only this stage fails, for example because a benchmark left half a file
                result, self.note = "failed", f"{type(failure).__name__}: {failure}"
        self.stages.append({"stage": name, "result": result, "seconds": round(time.monotonic() - began, 1),
                            "note": self.note})
        print(f"== {name}: {result} ({self.stages[-1]['seconds']} s)", *self.note.splitlines()[-20:], sep="\n",
              flush=True)
        self.write()

    def write(self):
        (self.out / "gpu-check.json").write_text(json.dumps(
            {"machine": self.machine, "stages": self.stages, "tests": Counter(self.tests.values()),
             "not_passed": self.not_passed(), "milliseconds": self.figures, "fast": self.fast}, indent=1) + "\n")
        (self.out / "gpu-check.md").write_text(page(self))
        with tarfile.open(self.out / "gpu-check-logs.tar.gz", "w:gz") as tar:
            tar.add(self.logs, "logs")

    def not_passed(self):
        return {name: result for name, result in self.tests.items() if result not in ("passed", "skipped")}

    def test(self, programs):
        results = run_tests([BUILD / p for p in programs], self.logs, self.stage_ends, OF_TESTS)
        self.tests |= results
        bad = [name for name, result in results.items() if result in ("failed", "not run")]
        alone = sum(result == "passed alone" for result in results.values())
        self.note = (f"{len(results)} tests, {alone} of them passed only in a separate process, {len(bad)} failed or "
                     "did not run")
        if bad:
            raise Failed("\n".join([self.note, *(f"  {results[name]}: {name}" for name in bad)]))


def machine(check):
    check.machine = check.run("nvidia-smi.log", "nvidia-smi", "--format=csv,noheader",
                              "--query-gpu=name,driver_version,memory.total,compute_cap").strip()
    check.run("doctor.log", BUILD / "foldgrad", "doctor")


def operations(check):
    check.test(["ops_test"])


def training(check):
    if not (ROOT / "data/multi30k").is_dir():
        check.note = "no Multi30k in this kit"
        return
    check.run("training.log", sys.executable, ROOT / "bench/device_curves.py", "--program", BUILD / "foldgrad",
              "--reference", ROOT / "bench/results/losses-multi30k-cpu.json")


def profile(check):
    """Measures how long the kernels of a step take on the GPU, and how long their launches take on the host."""
    notes = []
    for name, bench in {"ln": "iwslt/step/bf16", "un": "iwslt/step/un/bf16"}.items():
        table = check.out / f"gpu-check-launches-{name}.tsv"
        check.run(f"launches-{name}.log", BUILD / "transformer_bench", "--device=cuda", f"--benchmark_filter={bench}",
                  LD_PRELOAD=str(BUILD / "preload/launch_times.so"), LAUNCH_TIMES=str(table))
        rows = [(kernel, int(count), float(gpu), float(host))
                for kernel, count, gpu, host in (line.split("\t") for line in table.read_text().splitlines())]
        steps = next(count for kernel, count, *_ in rows if "clip_factor_kernel" in kernel)
        of_steps = [(count / steps, gpu, host) for _, count, gpu, host in rows if count >= steps]
        notes.append(f"{name}: {sum(each for each, *_ in of_steps):.0f} launches a step, "
                     f"{sum(each * gpu for each, gpu, _ in of_steps) / 1e3:.2f} ms on the GPU, "
                     f"{sum(each * host for each, _, host in of_steps) / 1e3:.2f} ms on the host")
    check.note = "; ".join(notes)


def pytorch(check):
    try:
        check.run("torch.log", sys.executable, "-c", "import torch; assert torch.cuda.is_available()")
    except Failed:
        check.note = "no PyTorch with CUDA here"
        return
    check.pytorch("PyTorch")
    check.pytorch("PyTorch compiled", "--compile")


def sanitizer(check, tool):
    if not shutil.which("compute-sanitizer"):
        check.note = "no compute-sanitizer here"
        return
    check.run(f"{tool}.log", "compute-sanitizer", "--tool", tool, "--error-exitcode", "1", BUILD / "ops_test",
              "--gtest_filter=*.CudaEqualsCpu:*TensorCores*", RC_PARAMS="max_success=2")


def fast(check):
    """Times operations and a training step, with plain kernels only and with the fast ones."""
    plain = {}
    for options in (["--plain"], []):
        for program, wanted in {"ops_bench": "norm|attention|cross_entropy|softmax", "transformer_bench": "bf16"}.items():
            log = f"{program}{'-plain' if options else '-fast'}"
            file = check.logs / f"{log}.json"
            check.run(f"{log}.log", BUILD / program, "--device=cuda", *options, f"--benchmark_filter={wanted}",
                      f"--benchmark_out={file}", "--benchmark_out_format=json")
            result = json.loads(file.read_text())
            for b in result["benchmarks"]:
                name = re.sub("/(iterations:|manual_time).*", "", b["name"])
                ms = b["real_time"] * MILLISECONDS[b["time_unit"]]
                if options:
                    plain[name] = ms
                else:
                    check.fast.append({"name": name, "plain": plain[name], "fast": ms, "kernels": b.get("label", "")})
            if program == "ops_bench":
                kernels = {name for name, what in result["context"].items() if what == "a fast kernel"}
    ran = {kernel for row in check.fast for kernel in row["kernels"].split("; ")}
    if not kernels <= ran:
        raise Failed("no benchmark runs " + "; ".join(sorted(kernels - ran)))
    check.note = f"{len(kernels)} kernels in {len(check.fast)} benchmarks"


def others(check):
    tests = (BUILD / "gpu_tests.txt").read_text().split()
    check.test([t for t in tests if t not in (*BASICS, "ops_test")])


STAGES = {
    "machine": machine,
    "basics": lambda check: check.test(BASICS),
    "operations": operations,
    "steps": lambda check: check.bench("transformer_bench", BUILD / "transformer_bench"),
    "training": training,
    "pytorch": pytorch,
    "profile": profile,
    "kernels": lambda check: check.bench("ops_bench", BUILD / "ops_bench",
                                         "--benchmark_filter=norm|attention|cross_entropy|dropout|linear"),
    "fast": fast,
    "others": others,
    "memcheck": lambda check: sanitizer(check, "memcheck"),
    "racecheck": lambda check: sanitizer(check, "racecheck"),
}


def page(check):
    """Returns the report as Markdown: passed and failed stages, and the times next to PyTorch's and the predicted
    ones."""
    commit = (ROOT / "build/kit/commit").read_text().strip()
    lines = [f"# scripts/gpu_check.sh at {commit}", "", check.machine, "", "| stage | result | seconds | |",
             "|---|---|---|---|"]
    for s in check.stages:
        note = s["note"].splitlines()[0] if s["note"] else ""
        lines.append(f"| {s['stage']} | {s['result']} | {s['seconds']} | {note.replace('|', '/')} |")
    if bad := check.not_passed():
        lines += ["", "| test | result |", "|---|---|", *(f"| {name} | {result} |" for name, result in bad.items())]
    if check.figures:
        predicted = json.loads((ROOT / "bench/predictions.json").read_text())
        columns = ["foldgrad", "PyTorch", "PyTorch compiled"]
        lines += ["", "Milliseconds; predictions are for an H100 (docs/testing.md).", "",
                  "| | " + " | ".join(columns) + " | predicted |", "|---|" + "---|" * 4]
        for name, times in check.figures.items():
            shown = [f"{times[c]:.4g}" if c in times else "" for c in columns] + [str(predicted.get(name, ""))]
            lines.append(f"| {name} | " + " | ".join(shown) + " |")
    if check.fast:
        lines += ["", "Milliseconds with plain kernels only, and with fast ones, including wide accesses (packs).", "",
                  "| | plain | fast | times as fast | fast kernels |", "|---|---|---|---|---|"]
        lines += [f"| {r['name']} | {r['plain']:.4g} | {r['fast']:.4g} | {r['plain'] / r['fast']:.2f} | {r['kernels']} |"
                  for r in check.fast]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results",
                        help="folder for the report (bench/results)")
    parser.add_argument("--seconds", type=float, default=570, help="time limit for all stages together (570)")
    options = parser.parse_args()
    for name in options.stages:
        if name not in STAGES:
            parser.error(f"there is no stage {name}; there are: {', '.join(STAGES)}")
    if not (BUILD / "gpu_tests.txt").exists():
        print("gpu_check: no kit here; scripts/gpu_kit.sh makes one", file=sys.stderr)
        return 6
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True) if shutil.which("nvidia-smi") else None
    if not listed or not re.search("^GPU", listed.stdout, re.M):
        print("gpu_check: nvidia-smi lists no GPU", file=sys.stderr)
        return 6
    os.environ["FOLDGRAD_PROGRAM"] = str(BUILD / "foldgrad")
    out = options.out.resolve()  # the path is relative to the caller's folder, but programs run in the kit
    os.chdir(ROOT)
    check = Check(out, options.seconds)
    for name in options.stages or STAGES:
        check.stage(name, STAGES[name])
    return 1 if any(s["result"] != "passed" for s in check.stages) else 0


if __name__ == "__main__":
    sys.exit(main())
