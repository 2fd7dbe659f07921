#!/usr/bin/env python3
"""Tests which mutants scripts/mutants makes from made-up lines, and which tests it runs for a file. Needs no
package."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["FOLDGRAD_SOURCE_DIR"], "scripts"))
sys.dont_write_bytecode = True
from mutation import equivalent  # noqa: E402
from mutation.changes import chosen, mutants_of  # noqa: E402
from mutation.covering import Covering  # noqa: E402


def after(line):
    return {m.after for m in mutants_of("a.cpp", line + "\n")}


class Changes(unittest.TestCase):
    def test_operators(self):
        self.assertEqual(after("a = b < c;"), {"a = b <= c;"})
        self.assertEqual(after("a = b + c * d;"), {"a = b - c * d;", "a = b + c / d;"})
        self.assertEqual(after("a = b && !c;"), {"a = b || !c;", "a = b && c;"})
        self.assertEqual(after("a -= -b;"), {"a += -b;", "a -= b;"})

    def test_constants_and_indices(self):
        self.assertEqual(after("f(0, 2u, 0.5, x[c]);"),
                         {"f(1, 2u, 0.5, x[c]);", "f(0, 3u, 0.5, x[c]);", "f(0, 2u, (2 * 0.5), x[c]);",
                          "f(0, 2u, 0.5, x[0]);"})
        self.assertEqual(after("return std::min(a, true);"),
                         {"return std::max(a, true);", "return std::min(a, false);"})
        self.assertEqual(after("f(1e-5);"), {"f((2 * 1e-5));"})

    def test_conditions_and_initializers(self):
        self.assertEqual(after("if (ready) go();"), {"if (!(ready)) go();"})
        self.assertEqual(after("f({.seed = t.seed, .clip = t.clip});"),
                         {"f({.clip = t.clip});", "f({.seed = t.seed, });"})

    def test_loops_are_not_turned_around(self):
        self.assertNotIn("for (i = a; ok(i); i -= n) f();", after("for (i = a; ok(i); i += n) f();"))
        self.assertIn("for (i = a; ok(i); i += n) s -= i;", after("for (i = a; ok(i); i += n) s += i;"))

    def test_what_is_no_expression_stays(self):
        for line in ("// a + b", "/* a + b */", 'f("a + b 1");', "#if A + 1 > 2", "template <int N = 4>",
                     "char c = '+';", "std::vector<const T*>& x;", "float row[kWidth];", "using A = B<3>;",
                     "T&& operator+(T&& a);"):
            self.assertEqual(after(line), set(), line)

    def test_a_mutant_is_applied_where_it_stands(self):
        text = "int f(int a) {\n  return a + 1;  // a + 1\n}\n"
        got = {m.apply(text) for m in mutants_of("a.cpp", text)}
        self.assertEqual(got, {text.replace("a + 1;", "a - 1;"), text.replace("a + 1;", "a + 2;")})

    def test_the_choice_depends_on_the_seed_and_not_on_where_lines_stand(self):
        text = "a = b + c;\nd = e * f;\ng = h < i;\nj = k && l;\n"
        first = chosen(mutants_of("a.cpp", text), 1, 2)
        moved = chosen(mutants_of("a.cpp", "\n\n" + text), 1, 2)
        self.assertEqual([m.key for m in first], [m.key for m in moved])
        self.assertEqual([m.line for m in moved], [m.line + 2 for m in first])
        orders = {tuple(m.key for m in chosen(mutants_of("a.cpp", text), seed, 4)) for seed in range(9)}
        self.assertGreater(len(orders), 4)


class Reach(unittest.TestCase):
    def test_what_is_known_to_change_nothing_is_a_change_of_the_code(self):
        self.assertGreater(len(equivalent.read(os.environ["FOLDGRAD_SOURCE_DIR"]).entries), 10)

    def test_a_test_reaches_every_file(self):
        covering = Covering(os.environ["FOLDGRAD_SOURCE_DIR"])
        files = [p for p in covering.includes if not p.startswith(("tests/", "emulation/"))]
        self.assertGreater(len(files), 300)
        self.assertEqual([p for p in files if not covering.tests_of(p)], [])

    def test_what_tests_a_file_by_itself_is_nearest(self):
        covering = Covering(os.environ["FOLDGRAD_SOURCE_DIR"])
        self.assertEqual(covering.tests_of("train/loop/schedule.cpp")[0][1], "loop_schedule_test")
        self.assertEqual(covering.tests_of("engine/cpu/vector_math.h")[0], (1, "cpu_vector_math_test"))


if __name__ == "__main__":
    unittest.main()
