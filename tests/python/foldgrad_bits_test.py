"""Checks that the foldgrad package computes the same bits as C++. Compares the value and the gradients of every
operation with those of tests/python/op_bits.cpp.

Options differ from their defaults, and operands differ from each other, so a lost or swapped argument changes the
result.
"""
import os
import tempfile
import unittest

from setting import SOURCES, call, require

require("numpy", "foldgrad")

import foldgrad as fg
import numpy as np
from foldgrad import ops

NOT_BOUND = {  # operation: the reason
    "watch_channels": "records for a report", "cached_attention": "needs the cache of a decoder",
    "channel_norm": "needs a state: Normalizer", "rbn_penalty": "needs a state: Normalizer",
    "power_norm": "needs a state: Normalizer",
}
NOT_RECORDED = {"sinusoidal_table", "top_k", "image_input"}


def rows(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class BoundedGain:
    """The example of docs/library.md: y = (1 + tanh(slope)) x + bias."""
    name, summary = "bounded", "a gain between 0 and 2"
    options = {"slope": (0.25, -5, 5, "initial slope")}

    def __init__(self, site):
        self.slope, self.bias = site.parameter("slope", site.option("slope")), site.parameter("bias", 0)
        self.parameters = [self.slope, self.bias]

    def forward(self, x, training):
        slope = x.tape.parameter(self.slope, x.dtype)
        return ops.affine(x, ops.tanh(slope) + 1, x.tape.parameter(self.bias, x.dtype))

    def affine(self):
        return 1 + np.tanh(self.slope.value.to("f64").numpy()), self.bias.value


def cases(n=1):
    """Returns {operation: (function, operands)}. `n` multiplies the operands' sizes; op_bits.cpp expects n = 1."""
    X, Y, Z = (rows(seed, 4 * n, 6 * n) for seed in (1, 2, 3))
    C, D, ONE = rows(4, 6 * n), rows(5, 6 * n), rows(6, 1)
    IMAGES, IDS = rows(7, 2 * n, 6, 6, 4), np.array([1, 0, 2, 1] * n)
    return {
        "linear": (ops.linear, X, rows(8, 3, 6 * n), rows(9, 3)),
        "matmul": (lambda a, b: ops.matmul(a, b, transpose_b=True), X, Y),
        "embedding": (lambda t, i: ops.embedding(t, i, scale=1.5, padding_id=2), X, IDS),
        "gather": (ops.gather, X, IDS), "add": (ops.add, X, Y), "sub": (ops.sub, X, Y), "mul": (ops.mul, X, Y),
        "scale": (lambda x: ops.scale(x, 0.3), X),
        "add_bias": (ops.add_bias, X, C), "layer_norm": (lambda *v: ops.layer_norm(*v, eps=1e-3), X, C, D),
        "rms_norm": (lambda *v: ops.rms_norm(*v, eps=1e-3, eps_outside=True, channels=4), X, C),
        "scale_norm": (lambda *v: ops.scale_norm(*v, eps=1e-3), X, ONE),
        "unit_rows": (lambda x: ops.unit_rows(x, eps=1e-3), X),
        "group_norm": (lambda *v: ops.group_norm(*v, groups=2, lengths=[3 * n, n], eps=1e-3), X, C, D),
        "center_norm": (ops.center_norm, X, C, D), "dyt": (ops.dyt, X, ONE, C, D),
        "derf": (ops.derf, X, ONE, rows(10, 1), C, D), "affine": (ops.affine, X, C, D),
        "scale_by": (ops.scale_by, X, ONE), "group_rms": (lambda x: ops.group_rms(x, groups=2, eps=1e-3), X),
        "sinusoidal_positions":
            (lambda x: ops.sinusoidal_positions(x, ops.sinusoidal_table(9 * n, 6 * n), lengths=[3 * n, n]), X),
        "learned_positions": (ops.learned_positions, rows(11, 2, 3, 4), rows(12, 5, 4)),
        "rotary": (lambda x: ops.rotary(x, [0, 1, 2, 0] * n, width=2, columns=4, theta=100), X),
        "activate": (lambda x: ops.activate(x, "softplus"), X), "bias_activation": (
            lambda *v: ops.bias_activation(*v, "gelu"), X, C),
        "bias_activation_dropout":
            (lambda *v: ops.bias_activation_dropout(*v, "silu", 0.4, seed=5, stream=6, step=7), X, C),
        "attention": (lambda *v: ops.attention(*v, heads=2, causal=True, lengths=[3 * n, n], scale=0.7, dropout=0.3,
                                               seed=5, stream=6, step=7), X, Y, Z),
        "attention_packed": (lambda *v: ops.attention_packed(*v, heads=1, lengths=[2 * n, 2 * n], scale=0.7), X,
                             rows(13, 1, 1, 2 * n, 2 * n)),
        "softmax": (ops.softmax, X),
        "divide_rows": (lambda n, d: ops.divide_rows(n, d, 0.3), X, rows(21, 4 * n)),
        "dropout": (lambda x: ops.dropout(x, 0.4, seed=5, stream=6, step=7), X),
        "bias_dropout_residual":
            (lambda *v: ops.bias_dropout_residual(*v, 0.4, seed=5, stream=6, step=7, path_p=0.5, path_rows=2,
                                                  path_stream=8), X, C, Y),
        "permute": (lambda x: ops.permute(x, [1, 0]), X), "flip": (lambda x: ops.flip(x, 1), X),
        "reindex": (lambda x: ops.reindex(x, [1, 0]), X), "reshape": (lambda x: ops.reshape(x, [2, -1]), X),
        "concat": (lambda *v: ops.concat(list(v), axis=1), X, Y), "slice": (lambda x: ops.slice(x, 1, 2, 5), X),
        "cast": (lambda x: ops.cast(x, "f64"), X),
        "cross_entropy":
            (lambda *v: ops.cross_entropy(*v, label_smoothing=0.1, ignore_index=2, reduction="sum"), X, IDS),
        "unfold": (lambda x: ops.unfold(x, 2, 3, stride=2, padding=1), IMAGES),
        "conv2d_channels_last": (lambda *v: ops.conv2d_channels_last(*v, stride=2, padding=1, activation="relu"),
                                 IMAGES, rows(14, 3, 4, 3, 3), rows(15, 3)),
        "patch_embedding": (ops.patch_embedding, IMAGES, rows(16, 5, 4, 3, 3), rows(17, 5)),
        "max_pool2d": (lambda x: ops.max_pool2d(x, kernel=3, stride=2, padding=1), IMAGES), "sum": (ops.sum, X),
        "mean": (ops.mean, X), "mean_pool": (ops.mean_pool, rows(18, 2, 3, 4)),
        "weighted_pool": (ops.weighted_pool, rows(18, 2, 3, 4), rows(19, 2, 3)),
        "gate": (ops.gate, rows(18, 2, 3, 4), rows(21, 2, 4)),
        "weight_standardize": (lambda *v: ops.weight_standardize(*v, minimum=1e-3, unbiased=True), X, rows(20, 4 * n)),
    }


CASES = cases()


def computed(f, arrays, dy_seed, dy=None):
    """Returns y, dy and the gradients of the floating-point operands."""
    tape = fg.Tape()
    operands = [tape.variable(a) if a.dtype.kind == "f" else tape.constant(a) for a in arrays]
    y = f(*operands)
    dy = rows(dy_seed, *y.shape).astype(y.value.numpy().dtype) if dy is None else dy
    tape.backward(y, dy)
    return y.value, dy, {k: tape.grad(v) for k, v in enumerate(operands) if v.dtype != "i64"}


class Bits(unittest.TestCase):
    def test_every_operation_is_that_of_cpp(self):
        given, wanted = {}, {}
        for seed, (name, (f, *arrays)) in enumerate(CASES.items()):
            y, dy, gradients = computed(f, arrays, 100 + seed)
            given.update({f"{name}.{k}": a for k, a in enumerate(arrays)}, **{f"{name}.dy": dy})
            wanted.update({f"{name}.d{k}": g for k, g in gradients.items()}, **{f"{name}.y": y})
        fg.register_normalizer(BoundedGain)
        norm, (_, X, C, D), Y = fg.Normalizer("bounded", 6), CASES["affine"], CASES["add"][2]
        for p, value in zip(norm.parameters, (C, D)):
            p.value = value
        tape = fg.Tape()
        x = tape.variable(X)
        y = norm.apply(x, training=True)
        tape.backward(y, Y)
        given.update({"bounded.0": X, "bounded.1": C, "bounded.2": D, "bounded.dy": Y})
        wanted.update({"bounded.y": y.value, "bounded.d0": x.grad, "bounded.d1": norm.parameters[0].grad,
                       "bounded.d2": norm.parameters[1].grad})
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("in", "out")]
            fg.write_safetensors(files[0], given)
            call(os.environ["FOLDGRAD_OP_BITS"], *files)
            results, _ = fg.read_safetensors(files[1])
        self.assertEqual(results.keys(), wanted.keys())
        for name, want in wanted.items():
            np.testing.assert_array_equal(want.numpy(), results[name].numpy(), name, strict=True)

    def test_every_row_of_the_docs_is_bound_and_compared(self):
        names = set()
        with open(SOURCES + "/docs/ops.md") as file:
            lines = file.readlines()
        for line in lines:
            columns = line.split("|")
            if len(columns) == 5 and "`ops/" in columns[3]:
                names.update(columns[1].replace("`", "").replace(" ", "").split(","))
        self.assertGreater(len(names), 40)
        self.assertEqual({name for name in names if not hasattr(ops, name)}, set(NOT_BOUND))
        self.assertEqual(names - set(NOT_BOUND) - set(CASES), NOT_RECORDED)

    def test_every_operation_says_shapes_and_source(self):
        for name in CASES:
            self.assertRegex(getattr(ops, name).__doc__, r"(?s)\[.*Source: ops/", name)


if __name__ == "__main__":
    unittest.main()
