"""Tests a task's exhibits on the page of `foldgrad report`: shaded counts and pictures."""
import base64
import json
import struct
import zlib

from report_page_parts import EVIL, PageTest, events, main


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


class ReportExhibits(PageTest):
    def setUp(self):
        for name in ("seen", "plain"):
            self.write_log(name, events(1, 0))
        self.write("seen/exhibits.json", json.dumps(EXHIBITS))

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
        self.expect_sound_structure()

    def test_scores_of_images_have_their_names(self):
        start, train, *_ = events(1, 0)
        self.write_log("images", [start, train | {"images_per_second": 7.0},
                                  {"event": "validate", "step": 100, "loss": 1.0, "top1": 12.345, "top5": 60.0}])
        self.browser.open(self.report("images"))
        self.assertEqual(self.texts("#runs thead th")[1:3], ["Top-1 %", "Top-5 %"])
        self.assertEqual(self.texts("#runs tbody td")[:2], ["12.35", "60.00"])
        self.assertEqual(dict(zip(self.texts("figcaption strong"), self.texts("figcaption .unit"))), {
            "Training loss": "nats per image", "Validation loss": "nats per image",
            "Top-1": "% of images", "Top-5": "% of images", "Gradient norm": "before train.clip",
            "Speed": "images / s"})

    def test_a_smoothed_loss_says_so(self):
        start, train, *_ = events(1, 0)
        self.write_log("text", [start, train])
        for config, shown in (("", False), ("[train]\nlabel_smoothing = 0.1\n", True)):
            self.write("text/config.toml", config)
            self.browser.open(self.report("text"))
            self.assertEqual("nats per token, label-smoothed" in self.texts("figcaption .unit"), shown)

    def test_sheets_fit_a_telephone(self):
        sheet = {"title": "t", "note": "n", "columns": 8, "pictures": 16 * EXHIBITS[1]["pictures"]}
        names = [f"class {k}" for k in range(30)]
        counts = {"title": "t", "note": "n", "matrix": {"names": names, "counts": [[k] * 30 for k in range(30)]}}
        self.write("seen/exhibits.json", json.dumps([sheet, counts]))
        path = self.report("seen")
        for width in (420, 1200):
            self.browser.open(path, width=width)
            self.expect_width(width)
            tops = self.js("[...document.querySelectorAll('#exhibits figure')].map(f => f.getBoundingClientRect().top)")
            self.assertEqual([tops.count(top) for top in sorted(set(tops))], [8, 8])


if __name__ == "__main__":
    main()
