"""What a task shows of a run besides scores, on the page of `foldgrad report`: counts, shaded, and pictures."""
import base64
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from browser import Browser, find_chromium
from report_page_parts import EVIL, Structure, events

PROGRAM = os.environ["FOLDGRAD_PROGRAM"]


def png(red, width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + bytes((red, 0, 0)) * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


EXHIBITS = [
    {"title": "Confusions", "note": EVIL,
     "matrix": {"names": ["cat", EVIL], "counts": [[3, 1], [0, 0]]}},
    {"title": "Worst mistakes", "note": "n",
     "pictures": [{"caption": EVIL, "png": base64.b64encode(png(200, 5, 3)).decode()}]},
]


class ReportExhibits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def setUp(self):
        self.files = tempfile.TemporaryDirectory()
        for name in ("seen", "plain"):
            os.mkdir(self.path(name))
            with open(self.path(name, "log.jsonl"), "w") as file:
                file.write("".join(json.dumps(e) + "\n" for e in events(1, 0)))
        self.exhibit(json.dumps(EXHIBITS))

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        self.files.cleanup()

    def path(self, *names):
        return os.path.join(self.files.name, *names)

    def exhibit(self, text):
        with open(self.path("seen", "exhibits.json"), "w") as file:
            file.write(text)

    def report(self, *runs):
        out = self.path("report.html")
        done = subprocess.run([PROGRAM, "report", *map(self.path, runs), "-o", out], capture_output=True, text=True)
        return out if done.returncode == 0 else done

    def js(self, expression):
        return self.browser.evaluate(expression)

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def test_counts_are_shaded_by_their_share(self):
        self.browser.open(self.report("plain", "seen"))
        self.assertEqual(self.texts("#exhibits h3"), ["seen: confusions", "seen: worst mistakes"])
        self.assertEqual(self.texts("#exhibits td"), ["3", "1", "·", "·"])
        self.assertEqual(self.texts("#exhibits th"), ["", "cat", EVIL, "cat", EVIL])
        alpha = self.js("[...document.querySelectorAll('#exhibits td span')].map("
                        "s => +(getComputedStyle(s).backgroundColor.match(/[/,] *([\\d.]+)\\)$/) || [0, 1])[1])")
        self.assertGreater(alpha[0], 2 * alpha[1])
        self.assertGreater(alpha[1], 0)
        self.assertEqual(alpha[2:], [0, 0])

    def test_pictures_are_in_the_file(self):
        path = self.report("seen")
        self.browser.open(path)
        elsewhere = [url for url in self.browser.requests() if not url.startswith("data:")]
        self.assertEqual(elsewhere, ["file://" + path])
        self.assertEqual(self.texts("#exhibits figcaption"), [EVIL])
        self.assertEqual(self.js("(i => [i.naturalWidth, i.naturalHeight])(document.querySelector('#exhibits img'))"),
                         [5, 3])
        self.assertIsNone(self.js("window.hacked"))
        self.assertEqual(Structure(self.js("document.documentElement.outerHTML")).complaints, [])

    def test_scores_of_images_have_their_names(self):
        os.mkdir(self.path("images"))
        with open(self.path("images", "log.jsonl"), "w") as file:
            for event in events(1, 0):
                if event["event"] == "train":
                    event["images_per_second"] = 7.0
                if event["event"] == "validate":
                    event = {"event": "validate", "step": event["step"], "loss": 1.0, "top1": 12.345, "top5": 60.0}
                file.write(json.dumps(event) + "\n")
        self.browser.open(self.report("images"))
        self.assertEqual(self.texts("#runs thead th")[5:7], ["Top-1 %", "Top-5 %"])
        self.assertEqual(self.texts("#runs tbody td")[4:6], ["12.35", "60.00"])
        self.assertEqual(dict(zip(self.texts("figcaption strong"), self.texts("figcaption .unit"))), {
            "Training loss": "nats per image, label-smoothed", "Validation loss": "nats per image",
            "Top-1": "% of images", "Top-5": "% of images", "Norm of the gradient": "before train.clip",
            "Speed": "images / s"})

    def test_sheets_fit_a_telephone(self):
        sheet = {"title": "t", "note": "n", "columns": 8, "pictures": 16 * EXHIBITS[1]["pictures"]}
        names = [f"class {k}" for k in range(30)]
        counts = {"title": "t", "note": "n", "matrix": {"names": names, "counts": [[k] * 30 for k in range(30)]}}
        self.exhibit(json.dumps([sheet, counts]))
        path = self.report("seen")
        for width in (420, 1200):
            self.browser.open(path, width=width)
            self.assertLessEqual(self.js("document.documentElement.scrollWidth"), width)
            tops = self.js("[...document.querySelectorAll('#exhibits figure')].map(f => f.getBoundingClientRect().top)")
            self.assertEqual([tops.count(top) for top in sorted(set(tops))], [8, 8])

    def test_runs_without_exhibits_have_no_such_section(self):
        self.browser.open(self.report("plain"))
        self.assertEqual(self.js("document.querySelectorAll('#exhibits').length"), 0)

    def test_a_damaged_file_is_named(self):
        for text in ("{", "7", "[{}]", json.dumps(EXHIBITS)[:-1]):
            self.exhibit(text)
            done = self.report("seen")
            self.assertEqual(done.returncode, 3)
            self.assertEqual(done.stderr, f"error: {self.path('seen', 'exhibits.json')}: is no list of exhibits\n")


if __name__ == "__main__":
    if not find_chromium():
        print("skipped: there is no Chromium")
        sys.exit(77)
    unittest.main()
