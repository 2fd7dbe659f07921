"""Checks of the capstone: properties of every normalizer that can be folded, whatever its formula."""
import pathlib

import numpy as np

from foldgrad.course import expect, near
from foldgrad.course.checks.ch07_folding import expect_folded, trained


def size(y):
    return float(np.sqrt(np.mean(y.numpy() ** 2)))


def check_1(m):
    import foldgrad as fg
    fg.register_normalizer(m.Mine)
    n = fg.Normalizer(m.Mine.name, 6, dtype="f64")
    draw = np.random.default_rng(11).normal
    spread = np.exp(draw(size=6))
    for _ in range(50):
        y = n(draw(size=(32, 6)) * spread, training=True)
    small, x = size(y), draw(size=(32, 6)) * spread
    state = {name: value.numpy().copy() for name, value in n.state.items()}
    y = n(x).numpy()
    for name, value in state.items():
        expect(np.array_equal(n.state[name].numpy(), value), "A server's answers must not depend on earlier requests. "
               "When may the state change?", f"another {name}", f"{name} as before", "after inference")
    A, B = n.affine() or (None, None)
    expect(A is not None, "What does the normalizer do to a channel at inference? Return it from affine().", None,
           "A and B")
    near(y, A * x + B, "The fold replaces forward() with A x + B. Do both use the same constants?", "y at inference")
    copy = fg.Normalizer(m.Mine.name, 6, dtype="f64")
    copy.restore(n.snapshot())
    near(copy(x).numpy(), y, "A checkpoint stores self.parameters, and the Tensors that __init__ put into self.state. "
         "What else does forward() read?", "y after a restart from a checkpoint")
    fg.Normalizer(m.Mine.name, 6)(np.ones((2, 3, 6), np.float32), training=True)  # f32, and another rank
    _, pullback = n.vjp(x)
    _, of = pullback(draw(size=(32, 6)))
    for p in n.parameters:
        expect(p.name in of and np.abs(of[p.name].numpy()).max() > 0, "A constant gets no gradient. How do you "
               "put a Parameter on x.tape?", f"no gradient of {p.name}", "a gradient of each parameter")
    for _ in range(100):
        y = n(10 * draw(size=(32, 6)) * spread, training=True)
    expect(0.5 < size(y) / small < 2, "What should a normalizer do when its inputs grow? By which power of the "
           "inputs does yours divide, and how soon does it adapt?", f"{size(y) / small:.3g} times as large",
           "the same size", "inputs times 10")
    y = n(10 * x)
    expect(0.5 < size(y) / small < 2, "Do the constants of affine() follow the training batches?",
           f"{size(y) / small:.3g} times as large", "about the same size", "inference after inputs 10 times as large")


class Refused:
    """A Run whose model fails a check."""

    def model(self):
        return self

    def verify(self, **_):
        return [{"check": "folded = unfolded", "outcome": "FAILED", "measured": "2"}]

    def __getattr__(self, name):
        expect(False, "A check failed. What must not happen to this model?", f"a call of {name}()", "ValueError")


def check_2(m):
    import foldgrad as fg
    fg.register_normalizer(m.Mine)
    try:
        m.deliver(Refused(), pathlib.Path("nowhere"))
        expect(False, "Which line reads the outcomes of verify()?", "no error", "ValueError",
               "a model that fails a check")
    except (ValueError, AssertionError) as e:
        expect(isinstance(e, ValueError) and "folded = unfolded" in str(e), "Which error does the docstring promise, "
               "and which text?", repr(e), "ValueError with the check's name", "folded = unfolded FAILED")
    run, folder = trained(m.Mine.name)
    folded = m.deliver(run, folder)
    expect_folded(folded)
    for name in ("folded/model.safetensors", "folded/certificate.json", "onnx/model.onnx"):
        expect((folder / name).exists(), "Which call writes this file, and into which directory?", f"no {name}", name)
    folded.model.export_onnx(str(folder / "ours"))
    same = (folder / "onnx/model.onnx").read_bytes() == (folder / "ours/model.onnx").read_bytes()
    expect(same, "Which of the two models did you export?", "another file", "the file of the folded model")
