"""The page of `foldgrad grid` for runs with existing logs, so that nothing is trained."""
import json
import statistics

from report_page_parts import EVIL, PageTest, main
from setting import SOURCES

SEEDS = (1, 2, 3)
CELLS = ["<b>"] + [f"cell {i:02}" for i in range(10)]  # sorted, as the program reads TOML tables
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


class GridPage(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("grid.toml", f"config = {json.dumps(SOURCES + '/configs/numbers-un.toml')}\nseeds = {list(SEEDS)}\n" +
                  "".join(f"[cells.{json.dumps(cell)}]\n" for cell in CELLS))
        for cell in CELLS:
            for seed in SEEDS:
                folder = "".join(c if c.isalnum() else "-" for c in cell)
                cls.write_log(f"out/{folder}/seed-{seed}", events(cell, seed))
        done = cls.run_program("grid", cls.path("grid.toml"), "--out", cls.path("out"))
        assert (done.returncode, done.stderr) == (0, ""), done
        cls.page = cls.path("out/grid.html")

    def lines(self, title):
        """Returns {name: {points, style, hidden}} of a chart's lines, without those that bound its bands."""
        return self.js(f"""(() => {{
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
            self.expect_width(width)
            self.assertEqual(self.texts("nav a"), ["Grid", "Curves", "Runs"])
        self.expect_sound_structure()

    def test_curves_are_means_of_cells(self):
        self.browser.open(self.page)
        lines = self.lines("BLEU")
        self.assertEqual(list(lines), CELLS)
        self.assertEqual(len({line["style"] for line in lines.values()}), len(CELLS))
        for cell, line in lines.items():
            steps = [step for step in STEPS if step % 1000 == 0 and (step <= 2000 or cell != DIVERGED)]
            self.assertEqual([x for x, _ in line["points"]], steps)
            for step, value in line["points"]:
                # Logs have all digits of Python's numbers, so only the program's mean is rounded differently.
                self.assertAlmostEqual(value, statistics.mean(bleu(cell, seed, step) for seed in SEEDS), delta=1e-12)

    def test_long_runs_are_thinned_out(self):
        self.browser.open(self.page)
        points = self.lines("Training loss")[CELLS[0]]["points"]
        self.assertEqual([x for x, _ in points], STEPS[::2])
        self.assertGreater(len(STEPS), MOST_EVENTS)

    def test_runs_can_be_seen_one_by_one_and_switched_off(self):
        self.browser.open(self.page)
        self.js("document.querySelector('#means').click()")
        lines = self.lines("BLEU")
        self.assertEqual(list(lines), [f"{cell}, seed-{seed}" for cell in CELLS for seed in SEEDS])
        self.assertEqual(len({line["style"] for line in lines.values()}), len(CELLS))
        self.assertEqual(lines["<b>, seed-2"]["points"][0], [1000, bleu("<b>", 2, 1000)])
        self.js("document.querySelector('#legend button').click()")
        self.assertEqual([name for name, line in self.lines("BLEU").items() if line["hidden"]],
                         [f"{CELLS[0]}, seed-1"])


if __name__ == "__main__":
    main()
