"""Checks of chapter 7."""
import atexit
import functools
import pathlib
import shutil
import tempfile

import numpy as np

from foldgrad.course import expect, near, several

CONFIG = """model = {family = "gpt", width = 8, ffn_width = 8, heads = 2, layers = 1, context = 8}
data = {task = "language"}
train = {steps = 20, batch = 4, lr = 1e-2, warmup = 2}
validate = {every = 20}
norm.name = "NAME"
OPTIONS
"""


def trained(name, options=""):
    """Returns the Run of a small GPT that the engine trains for 20 steps, and its folder."""
    import foldgrad as fg
    folder = pathlib.Path(tempfile.mkdtemp(prefix="foldgrad-course-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "input.txt").write_text("one two three one three two\n" * 200)
    (folder / "config.toml").write_text(CONFIG.replace("NAME", name).replace("OPTIONS", options))
    return fg.train(folder / "config.toml", folder / "run", data_dir=folder, progress=False), folder


@functools.cache
def small_gpt():
    return trained("un", "norm.un.warmup = 4")[0].model()


def expect_folded(folded):
    """Raises NotYet unless `folded` is a Folded without normalizers."""
    expect(hasattr(folded, "certificate"), "Return the result of fold(), which has a certificate.",
           type(folded).__name__, "a Folded")
    left = [n.site for n in folded.model.normalizers if n.name != "none"]
    expect(not left, "The output projection is also the embedding table. Which argument of fold() separates them?",
           f"left: {', '.join(left)}", "no normalizer left")


draw = np.random.default_rng(7).normal
x, A, B, W, b = draw(size=3), draw(size=3), draw(size=3), draw(size=(4, 3)), draw(size=4)


def check_1(m):
    folded, bias = several(m.fold_after(A, B, W, b), "W', b'")
    near(bias, W @ B + b, "What is left of W (A x + B) + b at x = 0? Which W is in it, the old or the new one?", "b'")
    near(folded, W * A, "Column j of W multiplies only x_j. Which factor does x_j have?", "W'")


def check_2(m):
    W, b, A, B = draw(size=(3, 4)), draw(size=3), draw(size=3), draw(size=3)
    folded, bias = several(m.fold_before(W, b, A, B), "W', b'")
    near(bias, A * b + B, "What is A (W x + b) + B at x = 0?", "b'")
    near(folded, A[:, None] * W, "Row i of W produces y_i. By which number does the normalizer multiply y_i?", "W'")


def check_3(m):
    model = small_gpt()
    folded, difference = several(m.fold_model(model), "folded, difference")
    expect_folded(folded)
    inputs = model.random_inputs()
    want, has = (one.run(inputs)["logits"].numpy() for one in (model, folded.model))
    wanted = np.abs(want - has).max() / np.abs(want).max()
    think = "Which number do you divide by?"
    if np.all(np.less(difference, wanted / 2)):
        think = "Did you find the largest absolute difference? A difference has a sign."
    near(difference / wanted, 1, think, f"a small GPT with un, f32: your difference / {wanted:.3g}", 1e-3, known=(
        (0, "The two models round differently, yet no bit of these logits differs. Which model computed each?"),))


def check_4(m):
    for readers, uses, wanted, think in (
            ([("linear", "q"), ("linear", "k")], {"q": 1, "k": 1}, [], "Each reader is linear, with a weight that "
             "nothing else reads. What forbids the fold?"),
            ([("linear", "q"), ("add", None)], {"q": 1}, [("add", None)], "One of two readers has no weight that "
             "could absorb A and B. What would it read if the normalizer were gone?"),
            ([("linear", "table")], {"table": 2}, [("linear", "table")], "The table is also the embedding. What "
             "happens to the embedding when its columns are multiplied by A?"),
            ([("rms_norm", "gain"), ("linear", "w"), ("linear", "table")], {"gain": 1, "w": 1, "table": 3},
             [("rms_norm", "gain"), ("linear", "table")], "Return each reader that prevents the fold, and no other.")):
        got = m.refusals(readers, uses)
        expect(isinstance(got, list) and all(pair in readers for pair in got), "Return some of the readers, "
               "unchanged: a list of pairs.", str(got), wanted, f"readers {readers}, uses {uses}")
        expect(got == wanted, think, got, wanted, f"readers {readers}, uses {uses}")
