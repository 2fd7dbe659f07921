#!/usr/bin/env python3
"""Tests scripts/gpu_check.sh with stand-ins for the kit's programs and for nvidia-smi. Needs no package and no GPU."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

SOURCES = Path(os.environ["FOLDGRAD_SOURCE_DIR"])

SMI = """#!/bin/sh
case "$*" in
  -L) echo "GPU 0: NVIDIA H200" ;;
  *) echo "NVIDIA H200, 580.1, 143771 MiB, 9.0" ;;
esac
"""
# A stand-in for a GoogleTest program. It lists its tests and reads a filter from a file. T.bad fails, T.ill fails if
# other tests run in the same process, T.crash aborts the process, and T.hang sleeps for 10 minutes.
TESTS = """#!{python}
import os, pathlib, sys, time
names = os.environ.get("TESTS", "good skipped").split()
if "--gtest_list_tests" in sys.argv:
    print("T.\\n" + "".join(f"  {{n}}  # GetParam() = 1\\n" for n in names) + "  DISABLED_never")
    sys.exit()
flags = pathlib.Path(sys.argv[1].split("=", 1)[1]).read_text()
wanted = flags.strip().split("=", 1)[1].split(":")
for name in wanted:
    print(f"[ RUN      ] {{name}}", flush=True)
    if name == "T.crash": os.abort()
    if name == "T.hang": time.sleep(600)
    bad = name == "T.bad" or (name == "T.ill" and len(wanted) > 1)
    kind = "  FAILED " if bad else "  SKIPPED" if name == "T.skipped" else "       OK"
    print(f"[{{kind}} ] {{name}} (1 ms)", flush=True)
print("[  FAILED  ] T.bad, where it is listed again" if "T.bad" in wanted else "")
"""
BENCH = """#!/bin/sh
for word; do case $word in --benchmark_out=*) file=${word#*=} ;; esac; done
[ -z "$LAUNCH_TIMES" ] || printf '%s\\t%s\\t%s\\t%s\\n' set-up 4 900 9 a::clip_factor_kernel 10 300 200 product 20 800 100 \\
  >"$LAUNCH_TIMES"
[ -z "$file" ] || echo '{"benchmarks": [
 {"name": "iwslt/step/bf16/iterations:5/manual_time", "iterations": 5, "real_time": 4.5e+00, "time_unit": "ms"},
 {"name": "softmax", "real_time": 2500, "time_unit": "us"}, {"name": "half' >"$file"
exit "${BENCH_STATUS:-0}"
"""
# A stand-in for a benchmark. Its fast kernel takes half as long as the plain one.
FAST_BENCH = """#!{python}
import json, os, sys
file = next(word.split("=", 1)[1] for word in sys.argv if word.startswith("--benchmark_out="))
plain = "--plain" in sys.argv
kernels = os.environ.get("KERNELS", "row, Softmax").split("; ")
json.dump({{"context": {{"date": "today"}} | {{k: "a fast kernel" for k in kernels}},
           "benchmarks": [{{"name": "softmax/8x8/forward/iterations:5/manual_time", "time_unit": "us",
                           "real_time": 500 if plain else 250, "label": "" if plain else "row, Softmax"}}]}},
          open(file, "w"))
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.tree = Path(self.enterContext(tempfile.TemporaryDirectory()))
        build = self.tree / "build/kit"
        build.mkdir(parents=True)
        shutil.copytree(SOURCES / "scripts/gpu", self.tree / "scripts/gpu")
        shutil.copy(SOURCES / "scripts/gpu_check.sh", self.tree / "scripts")
        (self.tree / "bench/results").mkdir(parents=True)
        shutil.copy(SOURCES / "bench/predictions.json", self.tree / "bench")
        (build / "commit").write_text("1234567\n")
        tests = ["engine_cuda_runtime_test", "engine_test", "engine_gemm_test", "ladder_test", "ops_test",
                 "train_loop_test"]
        (build / "gpu_tests.txt").write_text("\n".join(tests))
        self.tools = self.tree / "tools"
        self.tools.mkdir()
        stand_ins = {build / name: TESTS.format(python=sys.executable) for name in tests}
        stand_ins |= {build / "transformer_bench": BENCH, build / "ops_bench": BENCH, build / "foldgrad": "#!/bin/sh\n",
                      self.tools / "nvidia-smi": SMI}
        for path, text in stand_ins.items():
            path.write_text(text)
            path.chmod(0o755)

    def check(self, *arguments, **settings):
        """Returns (exit code, results, page, printed text) of a run."""
        out = self.tree / "out"
        done = subprocess.run([self.tree / "scripts/gpu_check.sh", "--out", out, *arguments], capture_output=True,
                              text=True, env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", **settings})
        file = out / "gpu-check.json"
        results = json.loads(file.read_text()) if file.exists() else None
        page = (out / "gpu-check.md").read_text() if file.exists() else ""
        return done.returncode, results, page, done.stdout + done.stderr

    def test_stages_run_in_their_order_and_are_told(self):
        status, results, page, printed = self.check("machine", "basics", "operations", "steps")
        self.assertEqual(status, 0, printed)
        self.assertEqual([(s["stage"], s["result"]) for s in results["stages"]],
                         [(name, "passed") for name in ("machine", "basics", "operations", "steps")])
        self.assertEqual(results["machine"], "NVIDIA H200, 580.1, 143771 MiB, 9.0")
        self.assertEqual(results["tests"], {"passed": 5, "skipped": 5})
        self.assertEqual(results["not_passed"], {})
        predicted = json.loads((SOURCES / "bench/predictions.json").read_text())["iwslt/step/bf16"]
        self.assertIn(f"| iwslt/step/bf16 | 4.5 |  |  | {predicted} |", page)
        self.assertIn("| softmax | 2.5 |", page)
        self.assertIn("# scripts/gpu_check.sh at 1234567\n", page)
        with tarfile.open(self.tree / "out/gpu-check-logs.tar.gz") as logs:
            self.assertIn("logs/ops_test-0.log", logs.getnames())

    def test_results_are_where_the_caller_stands(self):
        caller = self.tree / "caller"
        caller.mkdir()
        subprocess.run([self.tree / "scripts/gpu_check.sh", "--out", "results", "machine"], cwd=caller, check=True,
                       capture_output=True, env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"})
        self.assertEqual([path.name for path in caller.iterdir()], ["results"])
        self.assertTrue((caller / "results/gpu-check.md").exists())

    # A failed test runs again in its own process, since another test may have caused the failure.
    def test_failed_tests_run_again_alone(self):
        status, results, page, printed = self.check("operations", "steps", TESTS="good ill bad crash late")
        self.assertEqual(status, 1)
        self.assertEqual(results["tests"], {"passed": 2, "passed alone": 1, "failed": 2})
        self.assertEqual(results["not_passed"], {"ops_test: T.ill": "passed alone", "ops_test: T.bad": "failed",
                                                 "ops_test: T.crash": "failed"})
        self.assertEqual([s["result"] for s in results["stages"]], ["failed", "passed"])
        self.assertIn("5 tests, 1 of them passed only in a separate process, 2 failed or did not run", page)
        self.assertIn("| ops_test: T.bad | failed |", page)
        self.assertIn("failed: ops_test: T.crash", printed)

    def test_what_hangs_is_ended_and_the_rest_is_tried(self):
        status, results, _, _ = self.check("--seconds", "12", "operations", "steps", TESTS="good hang late")
        self.assertEqual(status, 1)
        self.assertEqual(results["tests"], {"passed": 1, "failed": 1, "not run": 1})
        self.assertEqual(results["not_passed"], {"ops_test: T.hang": "failed", "ops_test: T.late": "not run"})
        self.assertEqual([s["result"] for s in results["stages"]], ["failed", "no time left"])

    def test_figures_of_a_benchmark_that_failed_are_kept(self):
        status, results, _, _ = self.check("steps", BENCH_STATUS="3")
        self.assertEqual(status, 1)
        self.assertIn("transformer_bench: exit code 3", results["stages"][0]["note"])
        self.assertEqual(results["milliseconds"]["iwslt/step/bf16"], {"foldgrad": 4.5})

    # If a kernel has fewer launches than there are steps, it belongs to the set-up and does not count.
    def test_launches_of_a_step(self):
        status, results, _, printed = self.check("profile")
        self.assertEqual(status, 0, printed)
        step = "3 launches a step, 1.90 ms on the GPU, 0.40 ms on the host"
        self.assertEqual(results["stages"][0]["note"], f"ln: {step}; un: {step}")
        self.assertIn("product\t20", (self.tree / "out/gpu-check-launches-un.tsv").read_text())

    def test_fast_kernels_next_to_plain_ones(self):
        for name in ("ops_bench", "transformer_bench"):
            (self.tree / "build/kit" / name).write_text(FAST_BENCH.format(python=sys.executable))
        status, results, page, printed = self.check("fast")
        self.assertEqual(status, 0, printed)
        self.assertIn("| softmax/8x8/forward | 0.5 | 0.25 | 2.00 | row, Softmax |", page)
        self.assertEqual(results["fast"][0], {"name": "softmax/8x8/forward", "plain": 0.5, "fast": 0.25,
                                              "kernels": "row, Softmax"})
        status, _, _, printed = self.check("fast", KERNELS="row, Softmax; row, Other")
        self.assertEqual(status, 1)
        self.assertIn("no benchmark runs row, Other", printed)

    def test_refusals(self):
        self.assertEqual(self.check("dance")[0], 2)
        (self.tools / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
        status, results, _, printed = self.check()
        self.assertEqual((status, results), (6, None))
        self.assertIn("gpu_check: nvidia-smi lists no GPU", printed)
        (self.tree / "build/kit/gpu_tests.txt").unlink()
        status, _, _, printed = self.check()
        self.assertEqual(status, 6)
        self.assertIn("scripts/gpu_kit.sh makes one", printed)


if __name__ == "__main__":
    unittest.main()
