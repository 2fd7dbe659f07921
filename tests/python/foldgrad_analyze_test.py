"""Compares the tables of foldgrad.analyze with numbers computed by hand or by NumPy, and with a recorded run."""
import contextlib
import io
import pathlib
import tempfile
import unittest

from setting import require

require("numpy", "scipy", "foldgrad")

import foldgrad as fg
import numpy as np
from foldgrad import analyze

PHASES = ("begin", "end")
CONFIG = """[model]
width = 16
ffn_width = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
[norm]
name = "un"
[norm.un]
warmup = 2
window = 2
filtration = true
[train]
steps = 40
max_tokens = 40
warmup = 2
lr = 1e-2
[validate]
every = 10
beam = 1
[record]
from = [1, -20]
steps = 12
"""


def gram(x):
    x = np.asarray(x, float) - np.mean(x, 0)
    return (x @ x.T * (1 - np.eye(len(x))))[None]


class ByHand(unittest.TestCase):
    # HSIC1 ignores the diagonal and does not change if features are centred. Without centring, x = (1, 1, 0, 0) has
    # K_01 = K_10 = 1 and zeros elsewhere, and y = (1, 0, 1, 0) has L_02 = L_20 = 1, so HSIC1(K, K) = (2 + 4/6 - 2) / 4
    # and HSIC1(K, L) = (0 + 4/6 - 1) / 4.
    def test_hsic(self):
        both = np.concatenate([gram([[1], [1], [0], [0]]), gram([[1], [0], [1], [0]])])
        np.testing.assert_allclose(analyze.hsic1(both, both), [[1 / 6, -1 / 12], [-1 / 12, 1 / 6]], rtol=1e-14)

    def test_channels_that_pass_are_counted_in_every_window(self):
        row = np.arange(40)
        place = row * 7 % 20  # each window of 20 rows contains every number from 0 to 19 once
        columns = [place**2,  # passes: p = 0.27
                   place + 500 * (row == 5), np.ones(40), np.where(row == 39, np.nan, place**2)]
        want = [25.0 * (1 + (w > 5) + (w < 20)) for w in range(21)]
        np.testing.assert_array_equal(analyze.normal(np.stack(columns, 1).astype("f"), 20), want)
        for window in (7, 41):
            with self.assertRaisesRegex(ValueError, rf"in \[8, 40\].*got {window}"):
                analyze.normal(np.ones((40, 1)), window)

    def test_moving_means(self):
        arithmetic, geometric = analyze.means(np.array([1, 4, 16, 4, 0, -1.0]), 2)
        np.testing.assert_array_equal(arithmetic, [2.5, 10, 10, 2, -0.5])
        np.testing.assert_allclose(geometric, [2, 8, 8, 0, np.nan])
        # Channels 0 and 3 contain a 0, so outstanding() leaves them out.
        self.assertEqual(analyze.outstanding(np.array([[0, 2, 1, 0], [5, 2, 4, 0], [5, 3, 9, 0]]), 2), [1, 2])
        self.assertEqual(analyze.outstanding(np.zeros((2, 2)), 2), [0])

    # The roots of q are 1, 2, 3, 4, 7, 10, 5. For M = 2, a new root n and the kept root k have AM - GM = (n - k)^2 / 2,
    # and the threshold is the squared difference of the old window's two roots. The test begins at the third value:
    # (3 - 2)^2/2 > 1: no. (4 - 3)^2/2 > 1: no. (7 - 4)^2/2 > 1: yes. (10 - 7)^2/2 > 9: no. (5 - 10)^2/2 > 9: yes.
    # So 2 of 5 fire. If the window held the value that the skipped iteration writes in place of 49, 100 would fire,
    # too.
    def test_outliers_UN_19(self):
        q = np.array([[1], [4], [9], [16], [49], [100], [25]], "f")
        percent = lambda q, **options: analyze.outliers(fg.Normalizer("un", 1, **{"window": 2, **options}), q)
        self.assertEqual(percent(q), 40)
        self.assertEqual(percent(q, mode="reference"), 40)
        self.assertEqual(percent(q, warmup=4000, filtration=False), 40)
        self.assertEqual(percent(q, flag_low=False), 20)
        # The released form also fires at 100, but this does not count, since its window (0, 1, 4) is not full yet.
        self.assertEqual(percent(np.array([[1], [4], [100], [4]], "f"), window=3, mode="reference"), 0)
        # A second channel at another level raises the threshold, unless each channel has its own threshold.
        two = np.concatenate([q, np.full_like(q, 900)], 1)
        self.assertEqual((percent(two), percent(two, granularity="layer_any")), (0, 40))
        for options in ({"window": 7}, {"window": 1}, {"forward_average": "none"}, {"forward_average": "exponential"}):
            self.assertTrue(np.isnan(percent(q, **options)))


class OfARun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        fg.set_threads(1)
        path = pathlib.Path(folder.name)
        pairs = [(one, two) for one in ("eins", "zwei", "drei") for two in ("rot", "gut", "sehr alt")]
        for name in ("train", "valid"):
            (path / f"{name}.de").write_text("".join(f"{one} {two}\n" for one, two in pairs))
            (path / f"{name}.en").write_text("".join(f"{two} {one} x\n" for one, two in pairs))
        (path / "config.toml").write_text(CONFIG)
        train = lambda name, settings: fg.train(path / "config.toml", path / name, settings, path, progress=False)
        cls.run_ = train("run", {})
        cls.other = train("other", {"norm.name": "ln", "record.from": [], "train.steps": 10})
        cls.sites = [n.site for n in cls.run_.model().normalizers]

    def recorded(self, name, phase="end"):
        return self.run_.recordings[phase][name].numpy()

    def printed(self, *words):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = analyze.main([str(word) for word in words])
        return code, out.getvalue()

    def test_pnac(self):
        curves = analyze.pnac(self.run_, 9)
        self.assertEqual(list(curves), self.sites)
        for site, of in curves.items():
            self.assertEqual(list(of), [f"{kind} {phase}" for phase in PHASES for kind in ("q", "G", "noise")])
            for name, values in of.items():
                self.assertEqual(values.shape, (4,))
                if "noise" not in name:
                    kind, phase = name.split()
                    np.testing.assert_array_equal(values, analyze.normal(self.recorded(f"{site}.{kind}", phase), 9))
        code, table = self.printed("pnac", self.run_.path, "--window", 9)
        row = [line for line in table.splitlines() if line.startswith("decoder.layer_norm")][0].split()
        self.assertEqual((code, row[5]), (0, f"{curves['decoder.layer_norm']['G end'].mean():#.4g}"))

    def test_trace(self):
        chosen = ("--site", "decoder.layer_norm", "--channel", 3, "--window", 2)
        code, table = self.printed("trace", self.run_.path, *chosen)
        q = self.recorded("decoder.layer_norm.q")[:, 3].astype(float)
        pairs = np.stack([q[:-1], q[1:]])
        am, gm = pairs.mean(0), np.sqrt(pairs.prod(0))
        want = [q.mean(), q.min(), q.max(), am.mean(), gm.mean(), (am / gm).max()]
        self.assertEqual(code, 0)
        self.assertIn(["q", "end", *(f"{v:#.4g}" for v in want)], [row.split() for row in table.splitlines()])
        printed = self.printed("trace", self.run_.path)[1]
        for site in (self.sites[0], self.sites[3], self.sites[6]):
            self.assertIn(f": {site}, channel ", printed)

    def test_gradient(self):
        curves = analyze.gradient(self.run_)
        self.assertEqual(list(curves), self.sites)
        first, dx = curves[self.sites[0]], self.recorded(self.sites[0] + ".dx")
        for k, name in enumerate(("cosine", "norm ratio", "lambda < 1")):
            np.testing.assert_array_equal(first[name + " end"], dx[:, k])
        np.testing.assert_allclose(first["cosine begin"][:2], 1, atol=1e-6)  # averages begin at iteration 3
        self.assertTrue(np.isnan(first["lambda < 1 begin"][:2]).all())

    def test_skips_are_those_that_the_checkpoint_counts(self):
        names, found = analyze.skips(self.run_)
        self.assertEqual(names[:4], ["up to 10", "up to 20", "up to 40", "% from 3"])
        self.assertEqual(names[4:], [f"% {of} {phase}" for phase in PHASES for of in ("recorded", "shuffled", "normal")])
        counted = {n.site: n.diagnostics()["skips"] for n in self.run_.model(best=False).normalizers}
        self.assertEqual({site: numbers[2] for site, numbers in found.items()}, counted)
        self.assertGreater(sum(counted.values()), 0)
        for site, numbers in found.items():
            self.assertEqual(numbers[3], 100 * counted[site] / 38)
        un = fg.Normalizer("un", 16, window=2)
        self.assertEqual(found["decoder.layer_norm"][7], analyze.outliers(un, self.recorded("decoder.layer_norm.q")))

    def test_cka(self):
        a, b, values = analyze.cka(self.run_, self.run_, batch=4, dtype="f64")
        self.assertEqual((len(a), a[1], a), (12, "encoder.layers.0.self_attn", b))
        np.testing.assert_allclose(values.diagonal(), 1, rtol=1e-12)
        np.testing.assert_allclose(values, values.T, atol=1e-12)
        _, _, values = analyze.cka(self.run_, self.other, batch=9)
        self.assertLess(values[0][0], 0.999)
        self.assertIn(f"  {values[0][0]:#.4g}  ", self.printed("cka", self.run_.path, self.other.path, "--batch", 9)[1])

    def test_features_of_sentences_are_means_over_their_tokens(self):
        model = fg.load(self.run_.path, "f64")
        examples = model.examples(str(self.run_.path))
        alone = [{layer: y.numpy().mean(0) for layer, y in model.layer_outputs(examples.inputs([i])).items()}
                 for i in range(5)]
        for layer, got in analyze._grams(model, examples, [0, 1, 2, 3, 4]).items():
            np.testing.assert_allclose(got, gram([of[layer] for of in alone])[0], atol=1e-10, err_msg=layer)

    def test_errors(self):
        run, other = self.run_.path, self.other.path
        for words, message in (
                (["pnac", other], "other: has no recordings; train the run with record.from"),
                (["pnac", run], "the window must be in [8, 12], where the upper limit is the number of recorded "
                                "iterations, got 32"),
                (["trace", run, "--site", "x"], "the site x is not recorded; the recorded sites are encoder.layers.0"),
                (["trace", run, "--channel", 16], "must be in [0, 15], got 16"),
                (["skips", other], "other/log.jsonl: reports no skips, since the normalizers have no outlier test"),
                (["cka", run, other, "--batch", 10], "the batch must have 4 to 9 examples, got 10"),
                (["cka", run, "/nowhere"], "there is no run")):
            code, printed = self.printed(*words)
            self.assertEqual((code, printed[:7]), (1, "error: "))
            self.assertIn(message, printed)


if __name__ == "__main__":
    unittest.main()
