#!/usr/bin/env python3
"""Tests bench/compare.py with stand-ins for the benchmark and for the Python interpreter that has PyTorch. Needs no
package."""
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
if "inference" in sys.argv[0]:
    names = ["greedy/1x25/ln/f32", "greedy/1x25/ln/bf16", "encoder/1x32/ln/f32"]
chosen = [name for name in names if re.search(given.get("--benchmark_filter", ""), name)]
rows = [dict(aggregate_name="median", run_name=name + "/process_time/real_time", real_time=2.0, cpu_time=1.0)
        for name in chosen]
for row in rows:
    if "limited" in row["run_name"]:
        row["of_peak_%"] = 50.0
if "--benchmark_out" in given:
    json.dump(dict(context={{}}, benchmarks=rows), open(given["--benchmark_out"], "w"))
"""
PYTHON = f"""#!{sys.executable}
import json, re, sys
names = {{"ctranslate2_decoding.py": ["greedy/1x25/f32", "greedy/1x25/int8", "greedy/1x25/bf16"],
         "pytorch_inference.py": ["encoder/1x32/f32/pytorch"],
         "onnxruntime_encoder.py": ["encoder/1x32/f32/onnxruntime", "encoder/32x32/f32/onnxruntime"],
         "pytorch_vision.py": ["vit_s4/step/f32", "vit_s4/infer/ln/f32", "vit_s4/limited/f32", "cct4_3x2/step/f32"]}}
if sys.argv[1] != "-c":
    name_filter = sys.argv[sys.argv.index("--filter") + 1] if "--filter" in sys.argv else ""
    found = [name for name in names[sys.argv[1].split("/")[-1]] if re.search(name_filter, name)]
    print(json.dumps(dict(context={{}}, **{{name: [0.004] for name in found}})))
"""


def ratios(rows):
    return {name: {label: peer["ratio"] for label, peer in row["peers"].items()} for name, row in rows.items()}


class Compare(unittest.TestCase):
    def setUp(self):
        self.files = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.files / "bin").mkdir()
        for path, text in {"vision_bench": PROGRAM, "inference_bench": PROGRAM, "foldgrad": "#!/bin/sh\n",
                           "bin/python3": PYTHON}.items():
            (self.files / path).write_text(text)
            (self.files / path).chmod(0o755)

    def compare(self, *arguments, program="vision_bench"):
        table = self.files / "table.json"
        command = [sys.executable, BENCH / "compare.py", "--build", self.files, "--program", program, "--rounds", "1"]
        done = subprocess.run([*command, "--json", table, *arguments], capture_output=True, text=True,
                              env={**os.environ, "FOLDGRAD_VENV": str(self.files)})
        return done, json.loads(table.read_text())["results"] if done.returncode == 0 else None

    def test_benchmarks_without_a_limit_are_compared_without_a_filter(self):
        done, rows = self.compare()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ratios(rows), {"vit_s4/step/f32": {"PyTorch": 2}, "vit_s4/infer/un_folded/f32": {"PyTorch": 2},
                                        "vit_s4/fold/f32": {}, "vit_s4/limited/f32": {"PyTorch": 2}})
        self.assertEqual([name for name, row in rows.items() if "share_of_limit" in row], ["vit_s4/limited/f32"])
        self.assertTrue(done.stdout.endswith("\nno counterpart for vit_s4/fold/f32\n"))

    def test_a_filter_of_several_names_chooses_their_counterparts(self):
        done, rows = self.compare("--filter", "vit_s4/(step|infer/un_folded)")
        self.assertEqual(ratios(rows),
                         {"vit_s4/step/f32": {"PyTorch": 2}, "vit_s4/infer/un_folded/f32": {"PyTorch": 2}})
        self.assertNotIn("no counterpart for", done.stdout)

    def test_inference_is_set_beside_every_peer_that_does_the_same_by_time_of_the_cpu_too(self):
        done, rows = self.compare("--cpu-time", program="inference_bench")
        self.assertEqual(ratios(rows),
                         {"greedy/1x25/ln/f32": {"f32": 4}, "greedy/1x25/ln/bf16": {"int8": 4, "bf16": 4},
                          "encoder/1x32/ln/f32": {"f32/pytorch": 4, "f32/onnxruntime": 4}}, done.stderr)
        _, rows = self.compare("--peers", "pytorch_inference.py", "--filter", "encoder", program="inference_bench")
        self.assertEqual(ratios(rows), {"encoder/1x32/ln/f32": {"f32/pytorch": 2}})

    def test_a_filter_that_chooses_nothing_is_refused(self):
        done, _ = self.compare("--filter", "resnet")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--filter resnet: vision_bench has no benchmark whose name matches this", done.stderr)


if __name__ == "__main__":
    unittest.main()
