"""Tests the page of `foldgrad report` in a headless Chromium. Needs only Python's standard library."""
import math
import re
import statistics
import unittest

from report_page_parts import EVIL, SITES, STEPS, PageTest, Structure, contrast, events, loss, main, variance
from setting import PROGRAM

CHARTS = ["Training loss", "Validation loss", "Validation perplexity", "BLEU", "Gradient norm"]


class ReportPage(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, seed, lr, skips in (("s1", 1, 0.5, 0), ("s2", 2, 0.5, 0), ("fast", 3, 0.25, 7)):
            cls.write_log(name, events(seed, skips))
            cls.write(name + "/config.toml", f"[norm]\nname = \"un\"\n[train]\nlr = {lr}\nseed = {seed}\n")
            cls.write(name + "/env.json", EVIL)
        cls.one, cls.three = cls.report("s1"), cls.report("s1", "s2", "fast")
        with open(cls.one) as file:
            if "Chart.js v" not in file.read():
                raise unittest.SkipTest(f"{PROGRAM} was built without Chart.js")

    def rows(self, section):
        return [re.sub(r"\s+", " ", " | ".join(row)) for row in self.js(
            f"[...document.querySelectorAll('#{section} tbody tr')].map(r => [...r.cells].map(c => c.textContent))")]

    def datasets(self, chart=0):
        return self.js(f"Chart.getChart(document.querySelectorAll('canvas')[{chart}]).data.datasets.map(d => "
                       "({label: d.label, hidden: d.hidden, y: d.data.map(p => p.y), x: d.data.map(p => p.x)}))")

    def painted(self, run, chart=0):
        """Counts a chart's pixels that have a run's colour."""
        return self.js(f"""(() => {{
            const canvas = document.querySelectorAll("canvas")[{chart}];
            const colour = getComputedStyle(document.documentElement).getPropertyValue("--run-{run}").trim();
            const want = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
            const size = [canvas.width, canvas.height];
            const copy = new OffscreenCanvas(...size).getContext("2d", {{willReadFrequently: true}});
            copy.drawImage(canvas, 0, 0);
            const pixels = copy.getImageData(0, 0, ...size).data;
            let count = 0;
            for (let i = 0; i < pixels.length; i += 4)
              if (pixels[i + 3] > 200 && want.every((c, k) => Math.abs(c - pixels[i + k]) < 8)) ++count;
            return count; }})()""")

    def test_structure_of_the_file_and_of_the_page(self):
        for path in (self.one, self.three):
            with open(path) as file:
                self.assertEqual(Structure(file.read()).complaints, [])
            self.browser.open(path)
            self.expect_sound_structure()

    def test_needs_no_other_file_and_runs_no_text_of_a_run(self):
        self.browser.open(self.one)
        self.assertEqual(self.browser.requests(), ["file://" + self.one])
        self.assertIsNone(self.js("window.hacked"))
        self.assertIn(EVIL, self.texts("td.text"))
        self.assertIn(EVIL, self.texts("pre"))

    def test_charts_are_drawn(self):
        self.browser.open(self.three)
        self.assertEqual(self.texts("figcaption strong"), CHARTS)  # `exact` has no chart, since it is always 0
        for chart in range(len(CHARTS)):
            self.assertEqual(len(self.datasets(chart)), 3)
            self.assertGreater(self.painted(2, chart), 100)
        self.assertEqual(self.datasets()[1]["y"], [loss(2, step) for step in STEPS])
        self.assertEqual(self.datasets()[1]["x"], STEPS)
        begins = self.js("[...document.querySelectorAll('canvas')].map(c => Chart.getChart(c).scales.x.min)")
        self.assertEqual(begins, [0] * len(CHARTS))  # in all charts, regardless of when the first value was logged

    def test_a_click_on_the_legend_hides_a_run_everywhere(self):
        self.browser.open(self.three)
        self.assertEqual(self.texts("#legend button"), ["s1", "s2", "fast"])
        self.browser.click("#legend button", 2)
        for chart in range(len(CHARTS)):
            self.assertEqual([d["hidden"] for d in self.datasets(chart)], [False, False, True])
            self.assertEqual(self.painted(2, chart), 0)
        self.assertEqual(self.js("document.querySelectorAll('#legend button')[2].ariaPressed"), "false")
        self.browser.click("#legend button", 2)
        self.assertGreater(self.painted(2), 100)

    def test_hovering_shows_the_values_of_the_nearest_update(self):
        self.browser.open(self.three)
        left, top, _, _ = self.browser.place("canvas")
        x = self.js("Chart.getChart(document.querySelector('canvas')).scales.x.getPixelForValue(520)")
        self.browser.mouse("mouseMoved", left + x, top + 100, button="none")
        self.browser.settle()
        tooltip = "Chart.getChart(document.querySelector('canvas')).tooltip"
        self.assertEqual(self.js(tooltip + ".title"), ["update 500"])
        self.assertEqual(self.js(tooltip + ".body.map(b => b.lines[0])"),
                         [f" {loss(seed, 500):.4g}  {name}" for seed, name in ((3, "fast"), (2, "s2"), (1, "s1"))])

    def test_switch_to_a_logarithmic_axis(self):
        self.browser.open(self.three)
        kind = "Chart.getChart(document.querySelector('canvas')).scales.y.type"
        before = self.js(kind)
        self.browser.click("figcaption input")
        self.assertEqual((before, self.js(kind)), ("linear", "logarithmic"))
        norm_of_gradient = "Chart.getChart(document.querySelectorAll('canvas')[4])"  # logarithmic from the beginning
        self.assertEqual(self.js(norm_of_gradient + ".scales.y.ticks.map(t => t.label)"),
                         ["2", "5", "10", "20", "50", "100", "200"])
        self.browser.click("figcaption input", 3)
        bleu_chart = "Chart.getChart(document.querySelectorAll('canvas')[3])"  # 24 to 39, less than a power of ten
        self.assertEqual(self.js(bleu_chart + ".scales.y.ticks.map(t => t.label)"), ["25", "30", "35"])

    def test_smoothing_of_training_curves(self):
        self.browser.open(self.three)
        self.choose("#smoothing", 0.5)
        values, total, weight, want = [loss(1, step) for step in STEPS], 0, 0, []
        for value in values:
            total, weight = 0.5 * total + 0.5 * value, 0.5 * weight + 0.5
            want.append(total / weight)
        for got, value in zip(self.datasets()[0]["y"], want, strict=True):
            self.assertAlmostEqual(got, value, places=12)
        self.assertEqual(self.datasets()[1]["y"], values)  # the raw values, a thin line behind the smoothed values
        self.assertEqual(self.datasets(1)[0]["y"], values)  # validation curves are not smoothed

    def test_means_over_seeds(self):
        self.browser.open(self.three)
        self.browser.click("#means")
        self.assertEqual(self.texts("#legend button"), ["mean of s1, s2", "fast"])
        line, low, high, other = self.datasets()
        for column, of in ((line, statistics.fmean), (low, min), (high, max)):
            for got, step in zip(column["y"], STEPS, strict=True):
                self.assertAlmostEqual(got, of([loss(1, step), loss(2, step)]), places=12)
        self.assertEqual(other["label"], "fast")

    def test_means_have_the_steps_of_all_their_runs_and_lines_differ(self):
        names = [f"r{i}" for i in range(10)]
        for i, name in enumerate(names):  # r8 and r9 differ only in their seed, and r9 ends early
            self.write_log(name, [event for event in events(i + 1, 0) if i < 9 or event["step"] <= 500])
            self.write(name + "/config.toml", f"[train]\nlr = {min(i, 8) + 1}\nseed = {i}\n")
        self.browser.open(self.report(*names))
        styles = self.js("Chart.getChart(document.querySelector('canvas')).data.datasets.map("
                         "d => d.borderColor + d.borderDash)")
        self.assertEqual(len(set(styles)), len(names))
        self.browser.click("#means")
        mean = self.datasets()[0]
        self.assertEqual((mean["label"], mean["x"]), ("mean of r8, r9", STEPS[:5]))

    def test_a_range_of_updates_in_all_charts(self):
        self.browser.open(self.three)
        self.browser.drag("canvas", 0.4, 0.8, index=1)
        ranges = self.js("[...document.querySelectorAll('canvas')].map(c => Chart.getChart(c).scales.x)"
                         ".map(x => [x.min, x.max])")
        self.assertEqual(ranges, [ranges[1]] * len(CHARTS))
        self.assertTrue(300 < ranges[0][0] < 500 and 700 < ranges[0][1] < 900, ranges[0])
        self.browser.click("#zoom-out")
        self.assertEqual(self.js("Chart.getChart(document.querySelector('canvas')).scales.x.max"), STEPS[-1])

    def test_tables(self):
        self.browser.open(self.three)
        self.assertEqual(self.rows("settings"), ["train.lr | 0.5 | 0.5 | 0.25", "train.seed | 1 | 2 | 3"])
        perplexity = [2 ** loss(seed, 1000) for seed in (1, 2, 3)]
        columns = "un | finished | 1000 | 1000"
        first, second, fast, group = self.rows("runs")
        self.assertEqual(first, f"s1 | {perplexity[0]:.3f} best | 33.00 | 0.0 | {columns} | 0 | 1 | 1234 | 5:10")
        self.assertEqual(second, f"s2 | {perplexity[1]:.3f} | 36.00 | 0.0 | {columns} | 0 | 1 | 1234 | 5:10")
        self.assertEqual(fast, f"fast | {perplexity[2]:.3f} | 39.00 best | 0.0 | {columns} | {7 * len(SITES)} | 1 "
                               "| 1234 | 5:10")
        mean, deviation = statistics.fmean(perplexity[:2]), statistics.stdev(perplexity[:2])
        self.assertEqual(group, f"mean of s1, s2 | {mean:.3f} ± {deviation:.3f} | 34.50 ± 2.12 | 0.0 ± 0.0 | un "
                                "| 2 seeds | | | | | | 5:10")

    def test_one_run_has_nothing_to_differ_from(self):
        self.browser.open(self.one)
        self.assertEqual(self.texts("#contents a"), ["Runs", "Curves", "Layers and normalizers", "Details"])
        self.assertEqual(self.texts("#runs th")[-3:], ["Parameters", "Time", "s1"])
        self.assertNotIn("Skips", self.texts("#runs th"))
        self.assertFalse(self.js("Boolean(document.querySelector('#means'))"))

    def test_runs_that_have_hardly_begun(self):
        start, *_ = events(1, 0)
        self.write_log("begun", [start])
        self.browser.open(self.report("begun"))
        self.assertEqual(self.texts("#contents a"), ["Runs", "Curves", "Details"])
        self.assertEqual(self.texts("#curves p"), ["Nothing has been logged yet."])
        self.assertEqual(self.rows("runs"), ["begun | un | unfinished | 0 | – | 1234 | 0:00"])
        train = [{"event": "train", "step": step, "loss": value} for step, value in ((1, 2.5), (2, None), (3, 1.5))]
        self.write_log("diverged", [start, *train, {"event": "diverged", "step": 3, "message": "at last"}])
        self.browser.open(self.report("diverged"))
        self.assertEqual(self.datasets()[0]["y"], [2.5, None, 1.5])
        self.assertEqual(self.rows("details"), ["diverged | 3 | at last"])

    def test_heat_table_of_sites(self):
        self.browser.open(self.one)
        self.assertEqual(self.js("[...document.querySelectorAll('#quantity option')].map(o => o.value)"),
                         ["greatest_variance", "gradient_norm"])  # no skips, so this quantity is left out
        rows = self.rows("sites")
        self.assertEqual(len(rows), 32)
        self.assertEqual([rows[i].split(" ")[0] for i in (0, 31)], ["encoder.0.self_attn", "decoder.layer_norm"])
        cells = "[...document.querySelectorAll('.heat tbody tr')].map(r => [...r.querySelectorAll('.cell')].map("
        colours = self.js(cells + "c => getComputedStyle(c).backgroundColor))")
        self.assertEqual([len(row) for row in colours], [len(STEPS)] * 32)
        # The smallest and the largest value have viridis' end colours. The middle colour is half-way between their
        # logarithms.
        self.assertEqual((colours[0][0], colours[31][-1]), ("rgb(68, 1, 84)", "rgb(253, 231, 37)"))
        half = (math.log(variance(1, SITES[15], 400)) - math.log(variance(1, SITES[0], 100))) / (
            math.log(variance(1, SITES[31], 1000)) - math.log(variance(1, SITES[0], 100)))
        self.assertAlmostEqual(half, 0.5, places=2)
        for channel, want in zip(re.findall(r"\d+", colours[15][3]), (33, 144, 141), strict=True):
            self.assertAlmostEqual(int(channel), want, delta=3)
        self.assertEqual(self.js(cells + "c => c.title))")[5][2],
                         f"{SITES[5]}, update 300: {variance(1, SITES[5], 300):.4g}")
        self.choose("#quantity", "gradient_norm")
        self.assertEqual(self.rows("sites"), ["encoder.2" + " |" * 11 + " 2", "encoder.10" + " |" * 11 + " 1"])

    def test_a_click_on_a_site_draws_its_curve(self):
        self.browser.open(self.three)
        self.assertEqual(self.texts("#quantity option"), [
            "Greatest running variance over channels", "Skips since the beginning", "Gradient norm by layer"])
        self.browser.click(".heat tbody button", 3)
        self.assertEqual(self.texts("figcaption strong")[len(CHARTS):], ["encoder.1.final"])
        top, bottom = self.js("(r => [r.top, r.bottom])([...document.querySelectorAll('figure')].at(-1)"
                              ".getBoundingClientRect())")
        self.assertTrue(0 <= top and bottom <= 901, (top, bottom))  # visible, except for rounding
        got = self.datasets(len(CHARTS))
        self.assertEqual([d["label"] for d in got], ["s1", "s2", "fast"])
        self.assertEqual(got[2]["y"], [variance(3, SITES[3], step) for step in STEPS])
        self.assertGreater(self.painted(2, len(CHARTS)), 100)

    def test_dark_and_light(self):
        background = "getComputedStyle(document.body).backgroundColor"
        colour = "getComputedStyle(document.documentElement).getPropertyValue"
        self.browser.open(self.three)
        light = self.js(background)
        self.browser.open(self.three, dark=True)
        dark = self.js(background)
        self.assertNotEqual(light, dark)
        self.assertGreater(self.painted(2), 100)
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            for name in [f"--run-{i}" for i in range(8)] + ["--text", "--muted", "--accent"]:
                ratio = contrast(self.js(f"{colour}('{name}').trim()"), self.js(f"{colour}('--card').trim()"))
                self.assertGreaterEqual(ratio, 3 if "run" in name else 4.5, f"{name}, {scheme}")
        self.assertEqual(self.js(background), dark)
        self.browser.click("#theme")
        self.assertEqual(self.js(background), light)
        self.assertGreater(self.painted(2), 100)
        self.browser.prefer("light")
        self.browser.click("#theme")  # the button overrides the system's preference
        self.assertEqual(self.js(background), dark)

    def test_nothing_is_wider_than_a_telephone(self):
        for path in (self.one, self.three):
            self.browser.open(path, width=420)
            self.browser.click(".heat tbody button")
            self.expect_width(420)

    def test_without_chart_js_tables_remain(self):
        with open(self.three) as file:
            text = file.read()
        begin = text.index("<script>\n") + len("<script>\n")
        self.write("bare.html", text[:begin] + text[text.index("</script>", begin):])
        self.browser.open(self.path("bare.html"))
        self.assertEqual(self.texts("canvas"), [])
        self.assertIn("built without Chart.js", self.texts("#curves p")[0])
        self.assertEqual(len(self.rows("sites")), 3 * 32)
        self.assertEqual(len(self.rows("runs")), 4)


if __name__ == "__main__":
    main()
