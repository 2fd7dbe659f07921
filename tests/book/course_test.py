"""Tests docs/engine.md: its programs compile and print the output on the page, and its excerpts are in book/tiny.cpp.
Also tests the excerpts of docs/reading_kernels.md and the lengths in docs/gemm_ladder.md and docs/cpu_ladder.md.

A block of C++ that begins with "// NAME.cpp" is a program, and the text block after it is its output. Any other block
of C++ is an excerpt. The first text block is the output of book/tiny.cpp.
"""
import math
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT, TINY = Path(os.environ["FOLDGRAD_SOURCE_DIR"]), os.environ["FOLDGRAD_TINY"]
COMPILER = os.environ["FOLDGRAD_COMPILER"]
PAGE = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def printed_by(source, directory):
    program = os.path.join(directory, "program")
    subprocess.run([COMPILER, "-std=c++20", "-O0", f"-I{ROOT}", source, "-o", program], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


class Course(unittest.TestCase):
    maxDiff = None

    def assert_alike(self, got, want, near):
        """Checks that the texts differ only in numbers, and that near(got, want) holds for each pair of numbers."""
        self.assertEqual(NUMBER.sub("#", got), NUMBER.sub("#", want))
        for line, wanted in zip(got.splitlines(), want.splitlines()):
            for a, b in zip(NUMBER.findall(line), NUMBER.findall(wanted)):
                self.assertTrue(a == b or near(float(a), float(b)), f"{line}\n  in place of\n{wanted}")

    def test_tiny_prints_what_the_page_says(self):
        printed = subprocess.run([TINY], check=True, capture_output=True, text=True).stdout
        want = next(text for kind, text in BLOCKS if kind == "text")
        # Another C library may round differently. Losses and accuracies may differ by up to 0.05. Numbers below 1e-5
        # are rounding errors, and may differ by a factor of up to 10.
        self.assert_alike(printed, want, lambda a, b: abs(a - b) < 0.05 if max(a, b) > 1e-5 and min(a, b) > 1e-5
                          else min(a, b) > 0 and abs(math.log10(a / b)) < 1)

    def test_programs_print_what_the_page_says(self):
        programs = [(text, after) for (kind, text), (next_kind, after) in zip(BLOCKS, BLOCKS[1:])
                    if kind == "cpp" and text.startswith("// ") and next_kind == "text"]
        self.assertEqual([text.split("\n")[0] for text, _ in programs],
                         ["// tape.cpp", "// softplus.cpp", "// lanes.cpp"])
        self.assertLessEqual(programs[0][0].count("\n"), 60)
        for text, want in programs:
            with tempfile.TemporaryDirectory() as directory:
                source = os.path.join(directory, "program.cpp")
                Path(source).write_text(text, encoding="utf-8")
                self.assertEqual(printed_by(source, directory), want)

    def test_excerpts_stand_in_tiny(self):
        tiny = (ROOT / "book/tiny.cpp").read_text(encoding="utf-8")
        excerpts = [text for kind, text in BLOCKS if kind == "cpp" and not text.startswith("// ")]
        self.assertGreater(len(excerpts), 2)
        for text in excerpts:
            self.assertIn(text, tiny)

    def test_tiny_is_as_short_as_it_is_said_to_be(self):
        self.assertLessEqual((ROOT / "book/tiny.cpp").read_text(encoding="utf-8").count("\n"), 500)

    def test_tags_are_those_of_the_engine(self):
        table = (ROOT / "docs/equations.md").read_text(encoding="utf-8")
        equations = set(re.findall(r"^\| ([A-Z]+-\d+) \|", table, re.M))
        for page in ("book/tiny.cpp", "docs/engine.md"):
            tags = set(re.findall(r"\[([A-Z]+-\d+)\]", (ROOT / page).read_text(encoding="utf-8")))
            self.assertGreater(len(tags), 3)
            self.assertEqual(tags - equations, set())


class Kernels(unittest.TestCase):
    def test_excerpts_stand_in_the_file_named_before(self):
        page = (ROOT / "docs/reading_kernels.md").read_text(encoding="utf-8")
        excerpts = re.findall(r"\[([\w/]+\.h)\]\([^)]*\):\n\n```cpp\n(.*?)^```", page, re.M | re.S)
        self.assertEqual(len(excerpts), page.count("```cpp"))
        for name, text in excerpts:
            self.assertIn(text, (ROOT / name).read_text(encoding="utf-8"))
            self.assertLessEqual(text.count("\n"), 15)

    def test_rungs_are_as_short_as_they_are_said_to_be(self):
        for page in ("docs/gemm_ladder.md", "docs/cpu_ladder.md"):
            rungs = re.findall(r"^\| \d [\w' ]+ \| (.*?) \| .*? \| ([\d +]+) \|$",
                               (ROOT / page).read_text(encoding="utf-8"), re.M)
            self.assertEqual(len(rungs), 5)
            for files, lengths in rungs:
                for name, length in zip(re.findall(r"\]\(\.\./(.*?)\)", files), lengths.split(" + "), strict=True):
                    code = re.findall(r"^[ \t]*(?!//)\S.*", (ROOT / name).read_text(encoding="utf-8"), re.M)
                    self.assertEqual(len(code), int(length), name)
                    self.assertTrue(len(code) <= 60 or name.startswith("engine/"), name)


if __name__ == "__main__":
    unittest.main()
