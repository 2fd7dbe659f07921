"""Tests recordings of normalizers on the page of `foldgrad report`: PNAC, compared with SciPy's normality test, and
traces of single channels."""
import math
import os
import random
import shutil
import struct

from report_page_parts import PageTest, events, main
from setting import require, safetensors

require("numpy", "scipy")

import numpy as np
from scipy.stats import normaltest

ROWS, CHANNELS = 40, 6
SITES = ("encoder.layers.0.self_attn_layer_norm", "decoder.layer_norm")


def f32(numbers):
    return struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers))


def recorded(seed, rows=ROWS, channels=CHANNELS):
    """Returns {name: numbers}. The first site has q > 0. The last site has no G, and its constant q never passes the
    normality test."""
    noise = random.Random(seed)
    draw = lambda: f32([noise.gauss(0, 1) for _ in range(rows * channels)])
    return {f"{SITES[0]}.q": f32([6 + v for v in draw()]), f"{SITES[0]}.G": draw(),
            f"{SITES[-1]}.q": [1.0] * (rows * channels)}


def pnac(values, window=32):
    """Returns the percentage of channels that pass the normality test, averaged over all windows."""
    columns = np.array(values, float).reshape(ROWS, CHANNELS)
    passed = [normaltest(columns[i:i + window]).pvalue > 0.05 for i in range(ROWS - window + 1)]
    return f"{100 * np.mean(passed):.1f}"


def recording(seed, first, normalizer="un", rows=ROWS, sites=SITES, channels=CHANNELS):
    """Returns a safetensors file. At the first site, the flags mark every 11th value as skipped and every 7th as
    constant."""
    tensors = {"update": ("I64", [rows], struct.pack(f"<{rows}q", *range(first, first + rows)))}
    for name, numbers in recorded(seed, rows, channels).items():
        if name.rsplit(".", 1)[0] in sites:
            tensors[name] = ("F32", [rows, channels], struct.pack(f"<{len(numbers)}f", *numbers))
    flags = bytes((i % 11 == 0) + 4 * (i % 7 == 0) for i in range(rows * channels))
    tensors[f"{SITES[0]}.flag"] = ("U8", [rows, channels], flags)
    return safetensors(tensors, {"normalizer": normalizer, "sites": " ".join(sites)})


class ReportRecordings(PageTest):
    def setUp(self):
        for name in ("recorded", "plain"):
            self.write_log(name, events(1, 0))
        self.record("begin", recording(1, 1))
        self.record("end", recording(2, 961))

    def record(self, phase, content, run="recorded"):
        self.write(f"{run}/statistics/{phase}.safetensors", content)

    def test_the_numbers_are_those_of_scipy(self):
        path = self.report("plain", "recorded")
        curves = [f"{kind} {phase}" for phase in ("begin", "end") for kind in ("q", "G", "noise")]
        want = [str(CHANNELS), *(pnac(recorded(seed)[f"{SITES[0]}.{kind}"]) for seed in (1, 2) for kind in ("q", "G")),
                str(CHANNELS), "0.0", "–", "0.0", "–"]
        self.assertGreater(float(want[1]), 50)
        self.assertNotEqual(want[1], want[3])
        for width, dark in ((1280, False), (400, True)):
            self.browser.open(path, width=width, dark=dark)
            self.assertEqual(self.texts("#recordings .card h3"), ["recorded: PNAC of un"])
            self.assertEqual(self.texts("#recordings thead th")[2:], curves)
            rows = self.texts("#recordings td")
            for noise in (rows.pop(13), rows.pop(10), rows.pop(6), rows.pop(3)):
                self.assertGreater(float(noise), 80)
            self.assertEqual(rows, want)
            self.assertIn("window 32", self.texts("#recordings .note")[0])
            self.assertIn("end: 9 windows in updates 961 to 1000", self.texts("#recordings .note")[0])
            self.expect_width(width)
        self.expect_sound_structure()

    def traces(self):
        """Returns the contents of the section's charts, {title: {label: points [x, y]}}."""
        return self.js("""Object.fromEntries(
          [...document.querySelectorAll('#recordings figure')].map(figure => [
            figure.querySelector('strong').textContent,
            Object.fromEntries(Chart.getChart(figure.querySelector('canvas')).data.datasets.map(
              ({label, data}) => [label, data.filter(({y}) => y !== null).map(({x, y}) => [x, y])]))]))""")

    def expect_traces(self, site, channel):
        drawn, want = self.traces(), {}
        for seed, first, phase in ((1, 1, "begin"), (2, 961, "end")):
            for kind in ("q", "G"):
                values = recorded(seed).get(f"{site}.{kind}")
                if not values:
                    continue
                points = [[first + i, v] for i, v in enumerate(values[channel::CHANNELS])]
                lines = want[f"{kind}, {phase}"] = {kind: points}
                if site == SITES[0]:
                    lines["skipped"] = [p for i, p in enumerate(points) if (i * CHANNELS + channel) % 11 == 0]
                last = [[v for _, v in points[i:i + 4]] for i in range(len(points) - 3)]
                lines["AM of 4"] = [[first + 3 + i, sum(of) / 4] for i, of in enumerate(last)]
                lines["GM of 4"] = [[first + 3 + i, math.exp(sum(map(math.log, of)) / 4)]
                                    for i, of in enumerate(last) if min(of) > 0]
                if not lines["GM of 4"]:
                    del lines["GM of 4"]
        self.assertEqual({title: sorted(lines) for title, lines in drawn.items()},
                         {title: sorted(lines) for title, lines in want.items()})
        for title, lines in want.items():
            for label, points in lines.items():
                self.assertEqual([x for x, _ in drawn[title][label]], [x for x, _ in points], (title, label))
                for (_, got), (_, value) in zip(drawn[title][label], points):
                    # Recorded values must be equal. The means of four values may be rounded differently.
                    self.assertAlmostEqual(got, value, delta=0 if " of " not in label else 1e-14 * max(1, abs(value)))

    def test_traces_are_those_of_the_file(self):
        path = self.report("plain", "recorded")
        for width, dark in ((1280, False), (400, True)):
            self.browser.open(path, width=width, dark=dark)
            self.expect_traces(SITES[0], 0)
            colour = self.js("charts.at(-1).chart.options.plugins.legend.labels.color")
            self.choose("#trace-channel", CHANNELS - 1)
            self.expect_traces(SITES[0], CHANNELS - 1)
            for wrong in (CHANNELS, -1, 0.5, ""):
                self.choose("#trace-channel", wrong)
                self.assertEqual(self.js("document.querySelector('#trace-channel').ariaInvalid"), "true")
                self.expect_traces(SITES[0], CHANNELS - 1)
            self.choose("#trace-site", 1)
            self.expect_traces(SITES[1], 0)
            self.js("document.querySelector('#theme').click()")
            self.assertNotEqual(
                self.js("charts.at(-1).chart.options.plugins.legend.labels.color"), colour)
            self.expect_traces(SITES[1], 0)
            self.assertEqual(self.texts("#trace-run"), [])
            self.expect_width(width)
        self.expect_sound_structure()

    def test_the_run_can_be_chosen(self):
        shutil.copytree(self.path("recorded"), self.path("other"))
        self.record("begin", recording(2, 1), run="other")
        self.browser.open(self.report("other", "plain", "recorded"))
        self.assertEqual(self.texts("#trace-run option"), ["other", "recorded"])
        self.assertNotEqual(self.traces()["q, begin"]["q"][0][1], recorded(1)[f"{SITES[0]}.q"][0])
        self.choose("#trace-run", 1)
        self.expect_traces(SITES[0], 0)

    def test_large_recordings_are_cut_to_outstanding_channels(self):
        rows, channels = 150, 5000  # 18 MiB; a page may have 16
        for phase in ("begin", "end"):
            self.record(phase, recording(1, 1, rows=rows, channels=channels))
        q = np.array(recorded(1, rows, channels)[f"{SITES[0]}.q"]).reshape(rows, channels)
        last = np.lib.stride_tricks.sliding_window_view(q, 4, axis=0)
        ratio = (last.mean(-1) / np.exp(np.log(last).mean(-1))).sum(0)
        want = [str(ratio.argmin()), str(ratio.argmax())]
        path = self.report("recorded")
        self.assertLess(os.path.getsize(path), 1 << 20)
        self.browser.open(path)
        self.assertEqual(self.texts("#trace-channel option"), sorted(want, key=int))
        self.assertIn("More was recorded than fits", self.texts("#recordings .note")[-1])
        self.choose("#trace-channel", want[-1])
        values = recorded(1, rows, channels)[f"{SITES[0]}.q"][int(want[-1])::channels]
        self.assertEqual([y for _, y in self.traces()["q, end"]["q"]], list(values))

    def test_short_recordings_have_a_shorter_window_or_none(self):
        for rows, note in ((8, "window 8"), (7, "Too few iterations")):
            self.record("begin", recording(1, 1, rows=rows))
            self.browser.open(self.report("recorded"))
            self.assertIn(note, self.texts("#recordings .note")[0])
            self.assertEqual(len(self.texts("#recordings table")), int(rows == 8))

    def test_errors(self):
        for content, part in ((b"no safetensors", "is not a safetensors file"), (recording(1, 1, rows=0), "has no iterations"),
                              (recording(1, 1, sites=SITES[:1]), "of a different model than begin")):
            self.record("end", content)
            self.expect_error("end.safetensors: ", part)
        self.record("end", recording(2, 961))
        self.write("recorded/config.toml", "[norm]\nname = \"ln\"\n")
        self.addCleanup(os.remove, self.path("recorded/config.toml"))
        self.expect_error("begin.safetensors: ", "its normalizer is un, but the run's config.toml has ln")

    def expect_error(self, *parts):
        reported = self.run_program("report", self.path("recorded"))
        self.assertEqual(reported.returncode, 3)
        for part in parts:
            self.assertIn(part, reported.stderr)
        self.assertFalse(os.path.exists(self.path("recorded", "report.html")))


if __name__ == "__main__":
    main()
