"""The page of `foldgrad grid`, of runs whose logs are there, so that nothing is trained."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_chromium
from report_page_parts import EVIL, Structure

PROGRAM = os.environ["FOLDGRAD_PROGRAM"]
SOURCE = os.environ["FOLDGRAD_SOURCE_DIR"]
SEEDS = (1, 2, 3)
CELLS = ["<b>"] + [f"cell {i:02}" for i in range(10)]  # as TOML tables are sorted
DIVERGED = CELLS[3]
MOST_EVENTS = 400
STEPS = list(range(10, 5010, 10))


def loss(cell, seed, step):
    return 1 + CELLS.index(cell) + seed / step ** 0.5


def bleu(cell, seed, step):
    return 30 - loss(cell, seed, step)


def events(cell, seed):
    yield {"event": "start", "step": 0, "steps": STEPS[-1], "norm": "un", "parameters": 1, "score": "bleu"}
    last = 2500 if cell == DIVERGED and seed == 2 else STEPS[-1]
    for step in STEPS[:STEPS.index(last) + 1]:
        yield {"event": "train", "step": step, "loss": loss(cell, seed, step), "gradient_norm": 1.0, "lr": 1e-3,
               "seconds": 1.0}
        if step % 1000 == 0:
            yield {"event": "validate", "step": step, "loss": loss(cell, seed, step), "bleu": bleu(cell, seed, step)}
    yield ({"event": "diverged", "step": last, "message": EVIL} if last < STEPS[-1] else
           {"event": "end", "step": last, "outcome": "finished"})


class GridPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())
        cls.files = tempfile.TemporaryDirectory()
        grid, out = (os.path.join(cls.files.name, name) for name in ("grid.toml", "out"))
        with open(grid, "w") as file:
            file.write(f"config = {json.dumps(SOURCE + '/configs/numbers-un.toml')}\nseeds = {list(SEEDS)}\n" +
                       "".join(f"[cells.{json.dumps(cell)}]\n" for cell in CELLS))
        for cell in CELLS:
            for seed in SEEDS:
                run = os.path.join(out, "".join(c if c.isalnum() else "-" for c in cell), f"seed-{seed}")
                os.makedirs(run)
                with open(os.path.join(run, "log.jsonl"), "w") as file:
                    file.write("".join(json.dumps(event) + "\n" for event in events(cell, seed)))
        done = subprocess.run([PROGRAM, "grid", grid, "--out", out], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done
        cls.page = os.path.join(out, "grid.html")

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.files.cleanup()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def texts(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def lines(self, title):
        """Of a chart the lines that are no band: by name points and colour."""
        return self.browser.evaluate(f"""(() => {{
          const {{chart}} = charts.find(card => card.curve.title === {json.dumps(title)});
          return Object.fromEntries(chart.data.datasets.filter(({{helper}}) => !helper).map(
            ({{label, data, borderColor, borderDash, hidden}}) =>
              [label, {{points: data.map(({{x, y}}) => [x, y]), style: borderColor + borderDash, hidden}}]));
        }})()""")

    def test_the_table_has_means_and_what_diverged(self):
        want = []
        for cell in CELLS:
            seeds = [seed for seed in SEEDS if (cell, seed) != (DIVERGED, 2)]
            shown = [f"{statistics.mean(v):.{d}f} ± {statistics.stdev(v):.{d}f}"
                     for f, d in ((bleu, 2), (loss, 4)) for v in [[f(cell, seed, STEPS[-1]) for seed in seeds]]]
            want += [str(len(seeds)), *shown, "0", "diverged" if cell == DIVERGED else ""]
        for width, dark in ((1280, False), (400, True)):
            self.browser.open(self.page, width=width, dark=dark)
            self.assertEqual(self.texts("#grid tbody th"), CELLS)
            self.assertEqual(self.texts("#grid td"), want)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
            self.assertEqual(self.texts("nav a"), ["Grid", "Curves", "Runs"])
        self.assertEqual(Structure(self.browser.evaluate("document.documentElement.outerHTML")).complaints, [])

    def test_curves_are_means_of_cells(self):
        self.browser.open(self.page)
        lines = self.lines("BLEU")
        self.assertEqual(list(lines), CELLS)
        self.assertEqual(len({line["style"] for line in lines.values()}), len(CELLS))
        for cell, line in lines.items():
            steps = [step for step in STEPS if step % 1000 == 0 and (step <= 2000 or cell != DIVERGED)]
            self.assertEqual([x for x, _ in line["points"]], steps)
            for step, value in line["points"]:
                # The program has read what Python wrote with all its digits.
                self.assertAlmostEqual(value, statistics.mean(bleu(cell, seed, step) for seed in SEEDS), delta=1e-12)

    def test_long_runs_are_thinned_out(self):
        self.browser.open(self.page)
        points = self.lines("Training loss")[CELLS[0]]["points"]
        self.assertEqual([x for x, _ in points], STEPS[::2])
        self.assertGreater(len(STEPS), MOST_EVENTS)

    def test_runs_can_be_seen_one_by_one_and_switched_off(self):
        self.browser.open(self.page)
        self.browser.evaluate("document.querySelector('#means').click()")
        lines = self.lines("BLEU")
        self.assertEqual(list(lines), [f"{cell}, seed-{seed}" for cell in CELLS for seed in SEEDS])
        self.assertEqual(len({line["style"] for line in lines.values()}), len(CELLS))
        self.assertEqual(lines["<b>, seed-2"]["points"][0], [1000, bleu("<b>", 2, 1000)])
        self.browser.evaluate("document.querySelector('#legend button').click()")
        self.assertEqual([name for name, line in self.lines("BLEU").items() if line["hidden"]],
                         [f"{CELLS[0]}, seed-1"])


if __name__ == "__main__":
    if not find_chromium():
        print("skipped: there is no Chromium")
        sys.exit(77)
    unittest.main()
