"""Tests the course: each check must accept the solution, and reject the empty exercise and plausible wrong
solutions."""
import contextlib
import io
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from setting import require

require("numpy", "hypothesis", "foldgrad")

from course_mistakes import MISTAKES
from foldgrad import course
from foldgrad.course.__main__ import main

TEXTS = {path: path.read_text() for path in course.CHAPTERS}


def chapter_of(exercise):
    return course.CHAPTERS[int(exercise.split(".")[0]) - 1]


class Course(unittest.TestCase):
    maxDiff = None

    def answer(self, exercise, source):
        return course.check(exercise, source, chapter_of(exercise))

    def test_ten_chapters_and_a_capstone_of_two_to_four_exercises(self):
        chapters = [exercise.split(".")[0] for exercise in course.exercises()]
        self.assertEqual(list(dict.fromkeys(chapters)), [str(n) for n in range(1, 12)])
        self.assertTrue(all(2 <= chapters.count(chapter) <= 4 for chapter in chapters))

    def test_solutions_pass(self):
        for exercise in course.exercises():
            with self.subTest(exercise):
                self.assertIsNone(self.answer(exercise, TEXTS[chapter_of(exercise)]))

    def test_empty_exercises_are_not_begun(self):
        for exercise in course.exercises():
            with self.subTest(exercise):
                empty = course.skeleton(TEXTS[chapter_of(exercise)])
                self.assertRegex(self.answer(exercise, empty), "not begun|first solve")

    def test_wrong_solutions_fail_and_are_told_what_to_think_of(self):
        self.assertEqual(list(MISTAKES), list(course.exercises()))
        for exercise, mistakes in MISTAKES.items():
            self.assertGreaterEqual(len(mistakes), 3)
            for number, (right, wrong, phrase) in enumerate(mistakes):
                with self.subTest(exercise, number=number):
                    source = TEXTS[chapter_of(exercise)]
                    self.assertEqual(source.count(right), 1, right)
                    answer = self.answer(exercise, source.replace(right, wrong))
                    self.assertIsNotNone(answer, wrong)
                    self.assertIn("think", answer)
                    self.assertRegex(answer, phrase)

    def test_a_check_answers_whatever_the_functions_return(self):
        for exercise in course.exercises():
            source = TEXTS[chapter_of(exercise)]
            nodes = [node.body[-1] for number, node in course._marked(source) if number == exercise]
            for value in ("None", "'text'", "[1, None]", "numpy.ones((2, 3))", "(1, numpy.ones(3), 'text')"):
                lines = source.split("\n")
                for last in sorted(nodes, key=lambda last: -last.lineno):
                    lines[last.lineno - 1:last.end_lineno] = [" " * last.col_offset + f"import numpy; return {value}"]
                with self.subTest(exercise, value=value):
                    self.assertRegex(self.answer(exercise, "\n".join(lines)), "(?s)^  .*\n  think ")

    def test_the_texts_print_what_they_say(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, source in TEXTS.items():
                (Path(folder) / path.name).write_text(source)
            sys.path.insert(0, folder)
            try:
                for path in course.CHAPTERS:
                    with self.subTest(path.stem):
                        self.assert_prints(path.with_suffix(".md").read_text())
            finally:
                sys.path.remove(folder)

    def assert_prints(self, text):
        names = {}
        for code, wanted in re.findall(r"```python\n(.*?)((?:^#[^\n]*\n)*)```\n", text, re.S | re.M):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            if wanted:
                self.assertEqual(re.sub("^(?=.)", "# ", printed.getvalue(), flags=re.M), wanted)

    def test_a_student_starts_checks_and_sees_the_status(self):
        def printed(*words):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = main([*words])
            return code, out.getvalue()

        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            printed("start", folder)
            first = Path(folder) / "ch01_tape.py"
            self.assertNotIn("y.grad * b.value", first.read_text())
            self.assertNotIn("](../../", "".join(page.read_text() for page in Path(folder).glob("*.md")))
            os.chdir(folder)
            try:
                self.assertEqual(printed("check", "1.1"), (1, "1.1 not yet\n  not begun\n"))
                self.assertNotIn("not yet", printed("status")[1])
                first.write_text(TEXTS[course.CHAPTERS[0]].replace("math.exp", "math.exq"))
                self.assertEqual(printed("check", "1.1"), (0, "1.1 solved\n"))
                self.assertRegex(printed("check", "1.2")[1], r"ch01_tape.py:\d+: AttributeError: .*exq")
                first.write_text("def mul(:")
                self.assertRegex(printed("check", "1.1")[1], r"ch01_tape.py:1: ")
                printed("start", ".")
                self.assertEqual(first.read_text(), "def mul(:")
                self.assertRegex(printed("status")[1], r"1\.1 +not yet +mul\n(.*\n)+0 of \d+ solved; next: 1\.1\n")
                self.assertRegex(str(printed("--help")), r"^\(0, .usage: .* start DIR")
                for wrong, text in ((["check"], "usage"), (["start"], "usage"), ([], "usage"),
                                    (["check", "1.1", "12.1"], "no exercise or chapter 12.1")):
                    with self.assertRaisesRegex(SystemExit, text):
                        main(wrong)
            finally:
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
