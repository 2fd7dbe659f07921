#!/usr/bin/env python3
"""bench/compare.py, where the benchmark and the interpreter with PyTorch are stand-ins. Needs no package."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(os.environ["FOLDGRAD_SOURCE_DIR"]) / "bench"

PROGRAM = f"""#!{sys.executable}
import json, re, sys
given = dict(word.split("=", 1) for word in sys.argv[1:])
names = ["vit_s4/step/f32", "vit_s4/infer/un_folded/f32", "vit_s4/fold/f32", "vit_s4/limited/f32"]
chosen = [name for name in names if re.search(given.get("--benchmark_filter", ""), name)]
rows = [dict(aggregate_name="median", run_name=name, real_time=2.0) for name in chosen]
for row in rows:
    if "limited" in row["run_name"]:
        row["of_peak_%"] = 50.0
json.dump(dict(context={{}}, benchmarks=rows), open(given["--benchmark_out"], "w"))
"""
PYTHON = f"""#!{sys.executable}
import json, re, sys
if sys.argv[1] != "-c":
    name_filter = sys.argv[sys.argv.index("--filter") + 1]
    names = ["vit_s4/step/f32", "vit_s4/infer/ln/f32", "vit_s4/limited/f32", "cct4_3x2/step/f32"]
    print(json.dumps(dict(context={{}}, **{{name: [0.004] for name in names if re.search(name_filter, name)}})))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.files = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.files / "bin").mkdir()
        for path, text in {"vision_bench": PROGRAM, "bin/python": PYTHON}.items():
            (self.files / path).write_text(text)
            (self.files / path).chmod(0o755)

    def compare(self, *arguments):
        table = self.files / "table.json"
        done = subprocess.run([sys.executable, BENCH / "compare.py", "--build", self.files, "--program", "vision_bench",
                               "--json", table, *arguments], capture_output=True, text=True,
                              env={**os.environ, "FOLDGRAD_VENV": str(self.files)})
        return done, json.loads(table.read_text())["results"] if done.returncode == 0 else None

    def test_benchmarks_without_a_limit_are_compared_without_a_filter(self):
        done, rows = self.compare()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({name: row.get("ratio") for name, row in rows.items()},
                         {"vit_s4/step/f32": 2, "vit_s4/infer/un_folded/f32": 2, "vit_s4/fold/f32": None,
                          "vit_s4/limited/f32": 2})
        self.assertEqual([name for name, row in rows.items() if "share_of_limit" in row], ["vit_s4/limited/f32"])
        self.assertTrue(done.stdout.endswith("\npytorch_vision.py has nothing to set beside vit_s4/fold/f32\n"))

    def test_a_filter_of_several_names_chooses_their_counterparts(self):
        done, rows = self.compare("--filter", "vit_s4/(step|infer/un_folded)")
        self.assertEqual({name: row["ratio"] for name, row in rows.items()},
                         {"vit_s4/step/f32": 2, "vit_s4/infer/un_folded/f32": 2})
        self.assertNotIn("nothing to set beside", done.stdout)

    def test_a_filter_that_chooses_nothing_is_refused(self):
        done, _ = self.compare("--filter", "resnet")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--filter resnet: vision_bench has no benchmark whose name matches this", done.stderr)


if __name__ == "__main__":
    unittest.main()
