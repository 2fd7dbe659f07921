"""What recordings tell of normalizers, on the page of `foldgrad report`: the numbers of `foldgrad analyze pnac`."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_chromium
from report_page_parts import Structure, events

PROGRAM = os.environ["FOLDGRAD_PROGRAM"]
ROWS, CHANNELS = 40, 6
SITES = ("encoder.layers.0.self_attn_layer_norm", "decoder.layer_norm")


def recording(seed, first, normalizer="un", rows=ROWS, sites=SITES):
    """A file of safetensors. Of the last site no G, and q is constant: none of its channels passes."""
    noise = random.Random(seed)
    values = {f"{site}.{kind}": ([1.0] * (rows * CHANNELS) if site == SITES[-1] else
                                 [noise.gauss(0, 1) for _ in range(rows * CHANNELS)])
              for site in sites for kind in (("q",) if site == SITES[-1] else ("q", "G"))}
    tensors = {"update": ("I64", [rows], struct.pack(f"<{rows}q", *range(first, first + rows)))}
    for name, numbers in values.items():
        tensors[name] = ("F32", [rows, CHANNELS], struct.pack(f"<{len(numbers)}f", *numbers))
    header, data = {"__metadata__": {"normalizer": normalizer, "sites": " ".join(sites)}}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


class ReportRecordings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def setUp(self):
        self.files = tempfile.TemporaryDirectory()
        for name in ("recorded", "plain"):
            os.makedirs(self.path(name, "statistics"))
            with open(self.path(name, "log.jsonl"), "w") as file:
                file.write("".join(json.dumps(e) + "\n" for e in events(1, 0)))
        self.record("begin", recording(1, 1))
        self.record("end", recording(2, 961))

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        self.files.cleanup()

    def path(self, *names):
        return os.path.join(self.files.name, *names)

    def record(self, phase, content):
        with open(self.path("recorded", "statistics", phase + ".safetensors"), "wb") as file:
            file.write(content)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)

    def report(self, *runs):
        done = self.run_program("report", *map(self.path, runs), "-o", self.path("report.html"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path("report.html")

    def texts(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def test_the_numbers_are_those_of_analyze(self):
        path = self.report("plain", "recorded")
        analyzed = self.run_program("analyze", "pnac", self.path("recorded"), "--window", "32", "--json").stdout
        curves = [f"{kind} {phase}" for phase in ("begin", "end") for kind in ("q", "G", "noise")]
        want = []
        for site in json.loads(analyzed)[0]["sites"]:
            has = [curve for curve in curves if site[curve]["values"]]
            want += [str(CHANNELS)] + [f"{site[c]['mean']:.1f}" if c in has else "–" for c in curves]
        self.assertEqual(want[8:10] + want[11:13], ["0.0", "–", "0.0", "–"])
        self.assertGreater(float(want[1]), 50)
        self.assertNotEqual(want[1], want[4])
        for width, dark in ((1280, False), (400, True)):
            self.browser.open(path, width=width, dark=dark)
            self.assertEqual(self.texts("#recordings h3"), ["recorded: PNAC of un"])
            self.assertEqual(self.texts("#recordings thead th")[2:], curves)
            self.assertEqual(self.texts("#recordings td"), want)
            self.assertIn("window 32", self.texts("#recordings .note")[0])
            self.assertIn("end: 9 windows in updates 961 to 1000", self.texts("#recordings .note")[0])
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(Structure(self.browser.evaluate("document.documentElement.outerHTML")).complaints, [])

    def test_short_recordings_have_a_shorter_window_or_none(self):
        for rows, note in ((8, "window 8"), (7, "Too few iterations")):
            self.record("begin", recording(1, 1, rows=rows))
            self.browser.open(self.report("recorded"))
            self.assertIn(note, self.texts("#recordings .note")[0])
            self.assertEqual(len(self.texts("#recordings table")), int(rows == 8))

    def test_runs_without_recordings_have_no_such_section(self):
        self.browser.open(self.report("plain"))
        self.assertEqual(self.texts("#recordings"), [])

    def test_errors_are_those_of_analyze(self):
        for content, part in ((b"no safetensors", "header"), (recording(1, 1, rows=0), "has no iterations"),
                              (recording(1, 1, sites=SITES[:1]), "of another model than begin")):
            self.record("end", content)
            self.expect_error_of_analyze("end.safetensors: ", part)
        self.record("end", recording(2, 961))
        with open(self.path("recorded", "config.toml"), "w") as file:
            file.write("[norm]\nname = \"ln\"\n")
        self.expect_error_of_analyze("begin.safetensors: ", "its normalizer is un, that of the run's config.toml ln")

    def expect_error_of_analyze(self, *parts):
        analyzed = self.run_program("analyze", "pnac", self.path("recorded"))
        reported = self.run_program("report", self.path("recorded"))
        self.assertEqual((reported.returncode, reported.stderr), (analyzed.returncode, analyzed.stderr))
        self.assertNotEqual(reported.returncode, 0)
        for part in parts:
            self.assertIn(part, reported.stderr)
        self.assertFalse(os.path.exists(self.path("recorded", "report.html")))


if __name__ == "__main__":
    if not find_chromium():
        print("skipped: there is no Chromium")
        sys.exit(77)
    unittest.main()
