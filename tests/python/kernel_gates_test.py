#!/usr/bin/env python3
"""Tests scripts/kernel_gates on kernels that break its rules. Needs nvcc and no package."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCES = Path(os.environ["FOLDGRAD_SOURCE_DIR"])
NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

KERNELS = """
__global__ void plain_kernel(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
// An array that is indexed at run time is in memory, not in registers.
__global__ void stack_kernel(const int* x, int* y) {
  int bins[16] = {};
  for (int i = 0; i < 64; ++i) ++bins[x[i] & 15];
  y[threadIdx.x] = bins[threadIdx.x & 15];
}
__global__ void remainder_kernel(long long* x, long long n) { x[threadIdx.x] = x[threadIdx.x] % n; }
"""


class KernelGates(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.kernels = self.folder / "planted.cu"
        self.kernels.write_text(KERNELS)

    def run_gates(self, table, kernels=KERNELS):
        self.kernels.write_text(kernels)
        (self.folder / "table.txt").write_text(table)
        done = subprocess.run([sys.executable, SOURCES / "scripts/kernel_gates", "--table", self.folder / "table.txt",
                               self.kernels], capture_output=True, text=True)
        complaints = [line.split(": ", 2)[2] for line in done.stderr.splitlines() if line.startswith("kernel_gates: ")
                      and ".cu: " in line]
        return done.returncode, complaints, done.stderr

    def test_a_stack_frame(self):
        status, complaints, _ = self.run_gates("registers 255 .\n")
        self.assertEqual(status, 1)
        self.assertEqual(complaints, ["stack_kernel(int const*, int*) has a stack frame of 64 bytes: "
                                      "an array is indexed at run time"])

    def broken_by(self, row):
        plain = "\n".join(line for line in KERNELS.splitlines() if line.startswith("__global__ void") and "}" in line)
        status, complaints, _ = self.run_gates(row, plain)
        self.assertEqual(status, 1 if complaints else 0)
        return [complaint.split("(")[0] + " " + complaint.split(") ", 1)[1] for complaint in complaints]

    def test_registers(self):
        self.assertEqual(self.broken_by("registers 255 ."), [])
        few = self.broken_by("registers 1 plain_  # the first matching row counts\nregisters 255 .\n")
        self.assertEqual(len(few), 1)
        self.assertRegex(few[0], "^plain_kernel uses [0-9]+ registers, more than the 1 that line 1 allows$")
        self.assertEqual(self.broken_by("registers 255 plain_"), ["remainder_kernel matches no `registers` row"])

    def test_instructions(self):
        self.assertEqual(self.broken_by("registers 255 .\nmust ld\\.global\\.\\S*v4 plain_"), [])
        self.assertEqual(self.broken_by("registers 255 .\nmust ld\\.global\\.\\S*v4 _kernel"),
                         ["remainder_kernel lacks ld\\.global\\.\\S*v4, which line 2 requires"])
        self.assertEqual(self.broken_by("registers 255 .\nmustnot (div|rem)\\.[su]64 ."),
                         ["remainder_kernel has rem.s64, which line 2 forbids"])

    def test_what_the_kit_has_compiled(self):
        source = "book/ladder/naive.cu"
        kept = self.folder / "CMakeFiles/ladder.dir" / (source + ".o")
        kept.parent.mkdir(parents=True)
        subprocess.run([SOURCES / "scripts/kernels/keep_ptx", NVCC, "-std=c++17", "-I", SOURCES, "-DFOLDGRAD_HAVE_CUDA",
                        *[f"--generate-code=arch=compute_{n},code=[sm_{n}]" for n in ("80", "90a")],
                        "-c", SOURCES / source, "-o", kept], check=True)
        gates = [sys.executable, SOURCES / "scripts/kernel_gates", "--show", SOURCES / source]
        compiled = subprocess.run(gates, capture_output=True, text=True, check=True).stdout
        read = subprocess.run([*gates, "--compiled", self.folder], capture_output=True, text=True, check=True,
                              env={**os.environ, "CUDACXX": "false"}).stdout
        self.assertIn("naive_kernel", read)
        self.assertEqual(read, compiled)

    def test_what_does_not_compile(self):
        status, _, error = self.run_gates("registers 255 .\n", "__global__ int no_kernel() {}\n")
        self.assertEqual(status, 2)
        self.assertIn("planted.cu does not compile", error)

    def test_a_table_that_is_none(self):
        for row in ("registers many .", "ought 1 .", "must ld"):
            status, _, error = self.run_gates(row)
            self.assertEqual(status, 1)
            self.assertIn("table.txt:1: a row must be registers or must or mustnot, a value and a pattern, got: " + row,
                          error)

    def test_rows_that_fit_nothing_are_told(self):
        sys.path.insert(0, str(SOURCES / "scripts"))
        sys.dont_write_bytecode = True
        from kernels.gates import Kernel, idle_rows, read_table
        (self.folder / "table.txt").write_text("registers 9 a_kernel\n\n# a comment\nmust ld b_kernel\n")
        rows = read_table(self.folder / "table.txt")
        self.assertEqual(idle_rows([Kernel("f.cu: a_kernel", 9, 0, 0, "")], rows),
                         ["line 4 of the table matches no kernel: b_kernel"])


if __name__ == "__main__":
    if not NVCC:
        print("skipped: there is no nvcc")
        sys.exit(77)
    unittest.main()
