#!/usr/bin/env python3
"""Tests scripts/new_op in a copy of the tree. It must refuse names that are invalid or taken. A new operation must
compile at once. Its tests must fail and name the next step until the formula, the gradient and the numbers are
written. Needs no package. If the build under test runs kernels on the host, this test compiles with its commands."""
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from setting import PROGRAM, SOURCES

BUILD = Path(PROGRAM).parent
GIVEN = ("ops/{0}/{0}.h", "ops/{0}/{0}_kernels.h", "ops/{0}/{0}_cuda.cu", "ops/{0}/{0}.cpp", "docs/derivations/{0}.md",
         "tests/ops/{0}_test.cpp")


class NewOp(unittest.TestCase):
    def setUp(self):
        self.tree = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for folder in ("ops", "docs", "tests", "scripts"):
            shutil.copytree(Path(SOURCES) / folder, self.tree / folder)
        for name in ("engine", "models", "train", "emulation", ".clang-format"):
            (self.tree / name).symlink_to(Path(SOURCES) / name)

    def files(self):
        return {path: path.read_bytes() for path in self.tree.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    def new_op(self, name):
        return subprocess.run([self.tree / "scripts/new_op", name], capture_output=True, text=True)

    def replace(self, path, pattern, by):
        text = (self.tree / path).read_text()
        self.assertRegex(text, pattern)
        (self.tree / path).write_text(re.sub(pattern, by, text))

    def assert_refuses(self, name, message):
        before = self.files()
        done = self.new_op(name)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"new_op: {message}\n"))
        self.assertEqual(self.files(), before)

    def test_what_is_no_name_or_taken_is_refused(self):
        for name in ("Cube", "2d", "a-b", "a__b", "a_", "../flip", "", "double"):
            self.assert_refuses(name, f"a name must be a C++ identifier in snake_case, such as layer_scale, got {name!r}")
        self.assert_refuses("flip", "ops/flip already exists")
        self.assert_refuses("tanh", "docs/ops.md already has `tanh`")
        self.assert_refuses("rms", "docs/equations.md already has RMS-")
        self.assert_refuses("binary", "ops/arithmetic/arithmetic_kernels.h already has BinaryForward")
        self.assert_refuses("tape", "tests/engine/tape_test.cpp already exists")

    def test_nothing_is_left_of_what_cannot_be_finished(self):
        shutil.rmtree(self.tree / "tests/ops")  # new_op writes its last file into this folder
        self.assert_refuses("cube", "nothing written: [Errno 2] No such file or directory: "
                            f"'{self.tree.resolve() / 'tests/ops/cube_test.cpp'}'")
        self.assertFalse((self.tree / "ops/cube").exists())

    def test_the_tree_keeps_its_rules(self):
        before = set(self.files())
        for name in ("cube", "a_name_that_is_rather_long"):
            done = self.new_op(name)
            self.assertEqual(done.returncode, 0, done.stderr)
            made = [path.format(name) for path in GIVEN]
            self.assertEqual(done.stdout.split("\nadded")[0], "\n".join(f"wrote {path}" for path in made))
            self.assertIn(f"ninja -C build/emulate {name}_test\n", done.stdout)
            self.assertEqual(set(self.files()) - before, {self.tree / path for path in made})
            before = set(self.files())
            if shutil.which("clang-format"):
                code = [self.tree / path for path in made if not path.endswith(".md")]
                subprocess.run(["clang-format", "--dry-run", "--Werror", *code], check=True)
        self.assertIn("\n| `cube` | REPLACE ", (self.tree / "docs/ops.md").read_text())
        subprocess.run([sys.executable, self.tree / "tests/structure/equations.py"], check=True)

    def compile(self, sources):
        command = next(e["command"] for e in json.loads((BUILD / "compile_commands.json").read_text())
                       if e["file"].endswith("/tests/ops/flip_test.cpp"))
        words = [word for word in shlex.split(command) if word != "-Winvalid-pch"]
        for option in ("-include", "-o", "-c"):  # drops the build's precompiled header
            if option in words:
                at = words.index(option)
                del words[at:at + 2]
        for source in sources:
            language = ["-std=c++17", "-x", "c++"] if source.endswith(".cu") else []
            subprocess.run([words[0], "-I", self.tree, *words[1:], *language, "-c", self.tree / source,
                            "-o", self.tree / f"{Path(source).name}.o"], check=True)

    def failures(self, *sources):
        """Compiles these sources again and runs the operation's test. Returns its failures, {name: messages}."""
        self.compile(sources)
        command = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", "flip_test"], check=True,
                                 capture_output=True, text=True).stdout.splitlines()[-1]
        words = shlex.split(command.strip(": &"))
        at = words.index("-o")
        del words[at:at + 2]
        at = next(i for i, word in enumerate(words) if word.endswith("flip_test.cpp.o"))
        words[at:at + 1] = self.tree.glob("*.o")
        subprocess.run([*words, "-o", self.tree / "cube_test"], cwd=BUILD, check=True)
        results = self.tree / "results.json"
        subprocess.run([self.tree / "cube_test", f"--gtest_output=json:{results}"], stdout=subprocess.DEVNULL)
        tests = [test for suite in json.loads(results.read_text())["testsuites"] for test in suite["testsuite"]]
        self.assertEqual(len(tests), 11)
        return {test["name"]: "\n".join(failure["failure"] for failure in test["failures"])
                for test in tests if "failures" in test}

    def test_it_compiles_and_fails_until_it_is_filled_in(self):
        libraries = [BUILD / f"libfoldgrad_{name}.a" for name in ("emulation", "ops", "harness")]
        if not all(path.exists() for path in libraries) or not shutil.which("ninja"):
            self.skipTest(f"{BUILD} has no tests that ninja built with kernels on the host")
        self.assertEqual(self.new_op("cube").returncode, 0)
        _, kernels, cuda, code, _, tests = [path.format("cube") for path in GIVEN]
        by_hand = "CUBE_1_CUBE_2_WorkedByHand"
        computing = {"Gradients", "Constants", "CudaEqualsCpu", "LowerPrecision", "FastEqualsPlain", "ThreadOrders",
                     "Repeats"}

        failures = self.failures(code, cuda, tests)
        self.assertEqual(set(failures), computing | {by_hand})
        for message in failures.values():
            self.assertIn("cube has no formula: write [CUBE-1] in CubeForward of ops/cube/cube_kernels.h", message)

        # Without the throw and still without a formula, forward() returns NaN, and backward() names the missing
        # gradient.
        self.replace(code, r' *throw std::logic_error\(\s*"cube has no formula[^;]*;\n', "")
        failures = self.failures(code)
        self.assertEqual(set(failures), computing | {by_hand})
        for test in computing:
            self.assertIn("cube has no gradient: derive [CUBE-2] in docs/derivations/cube.md", failures[test])

        self.replace(code, r' *throw std::logic_error\(\s*"cube has no gradient[^;]*;\n', "")
        self.replace(kernels, r"NAN \* x_i;.*REPLACE by f\(x_i\): ", "x_i * x_i * x_i;  // ")
        failures = self.failures(code, cuda)
        self.assertIn("Gradients", failures)  # there is a formula, but the gradient is still NaN
        self.assertIn("CudaEqualsCpu", failures)

        self.replace(kernels, r"NAN \* dy_i \* x_i;.*REPLACE.*: ", "3 * x_i * x_i * dy_i;  // ")
        failures = self.failures(code, cuda)
        self.assertEqual(list(failures), [by_hand])
        self.assertIn("REPLACE the empty lists by three numbers each", failures[by_hand])
        self.replace(tests, r" *ADD_FAILURE.*\n", "")
        self.assertRegex(self.failures(tests)[by_hand], r"(?s)y\n.*the gradient of operand 0")

        self.replace(tests, r"\.y = \{\}", ".y = {-1, 0.125, 8}")
        self.replace(tests, r"\.gradients = \{\{\}\}", ".gradients = {{3, 7.5, 1200}}")
        self.assertEqual(self.failures(tests), {})


if __name__ == "__main__":
    unittest.main()
