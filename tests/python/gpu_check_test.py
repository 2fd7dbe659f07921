#!/usr/bin/env python3
"""scripts/gpu_check.sh where nvidia-smi, nvcc, cmake, compute-sanitizer and the programs are stand-ins that write down
how they were called. Needs no package and no GPU."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCES = Path(os.environ["FOLDGRAD_SOURCE_DIR"])

SMI = """#!/bin/bash
case "$*" in
  -L) echo "GPU 0: $GPU" ;;
  *--query-gpu=compute_cap*) echo "$CAPABILITY" ;;
  *) echo "$GPU, 580.1, 81559 MiB, $CAPABILITY" ;;
esac
"""
CMAKE = """#!/bin/bash
echo "cmake $*" >>"$CALLS"
if [[ $1 == --preset ]]; then
  mkdir -p build/cuda
  printf 'ops_test\\ngemm_test\\n' >build/cuda/gpu_tests.txt
  echo "--   Benchmarks      ON    found"
  for program in ops_test gemm_test ops_bench transformer_bench foldgrad; do cp "$STAND_INS/program" build/cuda/$program; done
fi
"""
PROGRAM = """#!/bin/bash
name=$(basename "$0")
echo "$name $*" >>"$CALLS"
[[ $name != "$FAILS" ]] || { echo "one test failed"; exit 1; }
[[ $name != "$HANGS" ]] || sleep 60
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.tree = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.tree / "scripts").mkdir()
        (self.tree / "bench").mkdir()
        shutil.copy(SOURCES / "scripts/gpu_check.sh", self.tree / "scripts")
        self.stand_ins = self.tree / "stand_ins"
        self.stand_ins.mkdir()
        for name, text in {"nvidia-smi": SMI, "cmake": CMAKE, "program": PROGRAM, "compute-sanitizer": PROGRAM,
                           "nvcc": PROGRAM, "ncu": PROGRAM, "python3": PROGRAM}.items():
            (self.stand_ins / name).write_text(text)
            (self.stand_ins / name).chmod(0o755)
        shutil.copy(self.stand_ins / "program", self.tree / "bench/device_curves.py")

    def check(self, *arguments, **settings):
        """(exit code, calls, results, what it printed)"""
        calls = self.tree / "calls"
        calls.write_text("")
        environment = {**os.environ, "PATH": f"{self.stand_ins}:{os.environ['PATH']}", "CALLS": str(calls),
                       "STAND_INS": str(self.stand_ins), "GPU": "NVIDIA H200", "CAPABILITY": "9.0", "FAILS": "",
                       "HANGS": "", **settings}
        done = subprocess.run([self.tree / "scripts/gpu_check.sh", *arguments], env=environment, capture_output=True,
                              text=True)
        file = self.tree / "bench/results/gpu-check.json"
        results = json.loads(file.read_text()) if file.exists() else None
        return done.returncode, calls.read_text().splitlines(), results, done.stdout + done.stderr

    def test_all_parts_run_once_and_are_told(self):
        status, calls, results, printed = self.check()
        self.assertEqual(status, 0, printed)
        self.assertEqual([call.split()[0] for call in calls],
                         ["cmake", "cmake", "ops_test", "gemm_test", "compute-sanitizer", "compute-sanitizer",
                          "ops_bench", "transformer_bench", "device_curves.py", "python3", "python3", "python3", "ncu"])
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=90a", calls[0])
        self.assertTrue(calls[1].endswith("--target foldgrad ops_test gemm_test ops_bench transformer_bench"), calls[1])
        self.assertEqual([(p["name"], p["result"]) for p in results["parts"]],
                         [(name, "passed") for name in
                          ("ops_test", "gemm_test", "memcheck", "racecheck", "ops_bench", "transformer_bench", "curves",
                           "pytorch", "pytorch_compiled", "ncu")])
        self.assertTrue(calls[-2].endswith("--filter iwslt --compile"), calls[-2])
        self.assertEqual(results["machine"], "NVIDIA H200, 580.1, 81559 MiB, 9.0")
        self.assertIn("| gemm_test | passed |", (self.tree / "bench/results/gpu-check.md").read_text())

    def test_other_gpus_get_no_code_of_this_one(self):
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=89", self.check("bench", CAPABILITY="8.9")[1][0].split())

    def test_quick_is_within_nine_minutes(self):
        _, _, results, _ = self.check("--quick")
        limits = {p["name"]: p["limit"] for p in results["parts"]}
        self.assertNotIn("pytorch", limits)
        tests = [limits.pop(name) for name in ("ops_test", "gemm_test")]
        self.assertEqual(tests, [60, 60])
        self.assertLessEqual(210 + sum(limits.values()), 540)  # 210: of all test programs together

    def test_a_failure_ends_nothing_but_counts(self):
        status, calls, results, printed = self.check("tests", FAILS="ops_test")
        self.assertEqual(status, 1)
        self.assertEqual([p["result"] for p in results["parts"]], ["failed", "passed"])
        self.assertIn("one test failed", printed)
        self.assertIn("1 of 2 parts failed", printed)
        self.assertEqual(len(calls), 4)

    def test_what_hangs_is_ended(self):
        status, _, results, printed = self.check("sanitize", SANITIZE_SECONDS="1", HANGS="compute-sanitizer")
        self.assertEqual(status, 1)
        self.assertEqual([p["result"] for p in results["parts"]], ["failed", "failed"])
        self.assertIn("failed (124)", printed)

    def test_without_pytorch_the_rest_is_measured(self):
        status, _, results, printed = self.check("bench", FAILS="python3")
        self.assertEqual(status, 0, printed)
        self.assertEqual([p["name"] for p in results["parts"]], ["ops_bench", "transformer_bench", "curves", "ncu"])

    def test_refusals(self):
        self.assertEqual(self.check("dance")[0], 2)
        (self.stand_ins / "nvidia-smi").write_text("#!/bin/bash\nexit 9\n")
        status, calls, _, printed = self.check()
        self.assertEqual((status, calls), (6, []))
        self.assertIn("gpu_check: nvidia-smi lists no GPU", printed)


if __name__ == "__main__":
    unittest.main()
