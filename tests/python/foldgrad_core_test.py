"""Tests of the foldgrad package: arrays, tapes and operations."""
import gc
import os
import sys
import threading
import unittest

from setting import require

require("numpy", "foldgrad")

import foldgrad as fg
import numpy as np

f32 = np.float32


def rows(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(f32)


class Arrays(unittest.TestCase):
    def test_every_dtype_goes_through_and_back(self):
        for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_):
            for shape in ((), (0, 3), (2, 3), (2, 1, 2)):
                x = np.ones(shape, dtype)
                y = fg.Tensor(x).numpy()
                self.assertEqual((y.shape, y.dtype), (shape, np.uint8 if dtype is np.bool_ else dtype))
                np.testing.assert_array_equal(x, y)

    def test_strides_are_copied_or_refused(self):
        x = rows(1, 4, 6)
        for view in (x.T, x[::-1], x[:, ::2], np.asfortranarray(x), np.broadcast_to(x[0], (3, 6))):
            np.testing.assert_array_equal(fg.Tensor(view).numpy(), view)
            with self.assertRaisesRegex(ValueError, "ascontiguousarray"):
                fg.Tensor(view, copy=False)

    def test_arrays_are_shared_only_if_told_or_read_only(self):
        x = np.zeros(3, f32)
        copied, shared = fg.Tensor(x), fg.Tensor(x, copy=False)
        x[0] = 1
        read_only = x.copy()
        read_only.flags.writeable = False
        self.assertEqual((copied.numpy()[0], shared.numpy()[0]), (0, 1))
        self.assertTrue(np.shares_memory(fg.Tensor(read_only).numpy(), read_only))
        self.assertFalse(shared.numpy().flags.writeable)
        holder = type("Holder", (), {"__array__": lambda self, dtype=None, copy=None: x})()
        copied = fg.Tensor(holder)
        x[0] = 2
        self.assertEqual(copied.numpy()[0], 1)
        references = sys.getrefcount(x)
        del shared
        gc.collect()
        self.assertEqual(sys.getrefcount(x), references - 1)

    def test_a_shared_dy_is_not_written(self):
        tape, dy = fg.Tape(), np.ones(3, f32)
        x = tape.variable(np.zeros(3, f32))
        tape.backward(x + x, fg.Tensor(dy, copy=False))
        np.testing.assert_array_equal(dy, np.ones(3, f32))
        np.testing.assert_array_equal(tape.grad(x).numpy(), np.full(3, 2, f32))

    def test_other_inputs(self):
        self.assertEqual(fg.Tensor([[1, 2], [3, 4.5]]).dtype, "f64")
        self.assertEqual(fg.Tensor(3).shape, ())
        unaligned = np.frombuffer(b"x" + rows(1, 5).tobytes(), f32, offset=1)
        np.testing.assert_array_equal(fg.Tensor(unaligned).numpy(), unaligned)
        np.testing.assert_array_equal(np.from_dlpack(fg.Tensor(unaligned)), unaligned)
        np.testing.assert_array_equal(np.asarray(fg.Tensor([1, 2])), [1, 2])

    def test_refused_inputs(self):
        for given, kind, message in (
                (np.zeros(2, np.float16), TypeError, "astype"), (np.zeros(2, complex), TypeError, "astype"),
                (np.zeros(2, ">f4"), TypeError, "byte order"), (np.array([None]), TypeError, "astype"),
                (None, TypeError, "got None"), (np.ma.array([1.0, 2.0], mask=[0, 1]), ValueError, "mask"),
                ("text", TypeError, "astype"), ({}, TypeError, "astype")):
            with self.assertRaisesRegex(kind, message):
                fg.Tensor(given)
        with self.assertRaisesRegex(ValueError, "f32, f64, bf16, i32, i64 or u8"):
            fg.Tensor([1]).to("f16")


class Tapes(unittest.TestCase):
    def test_gradients_of_a_layer(self):
        tape, w = fg.Tape(), fg.Parameter("w", rows(1, 3, 4))
        x = rows(2, 5, 4)
        y = fg.ops.linear(tape.constant(x), tape.parameter(w))
        dy = rows(3, 5, 3)
        tape.backward(y, dy)
        np.testing.assert_allclose(w.grad.numpy(), dy.T @ x, rtol=1e-5)
        np.testing.assert_allclose(y.value.numpy(), x @ w.value.numpy().T, rtol=1e-5)

    def test_operators(self):
        tape = fg.Tape()
        a, b = tape.variable([1.0, 2.0]), tape.variable([3.0, 5.0])
        for got, want in ((a + b, [4, 7]), (a - b, [-2, -3]), (a * b, [3, 10]), (2 * a + 1, [3, 5]), (-a, [-1, -2])):
            np.testing.assert_array_equal(got.value.numpy(), want)
        with self.assertRaisesRegex(ValueError, r"add: .*\[2\]"):
            a + tape.constant([1.0])
        with self.assertRaises(TypeError):
            a + "text"

    def test_wrong_uses(self):
        tape, other = fg.Tape(), fg.Tape()
        x = tape.variable([1.0])
        for wrong, message in (
                (lambda: fg.ops.add(x, other.constant([1.0])), "another tape"),
                (lambda: tape.backward(fg.ops.concat([x, x], 0)), "one element"),
                (lambda: tape.grad(x + x), "results of operations")):
            with self.assertRaisesRegex(ValueError, message):
                wrong()
        tape.clear()
        with self.assertRaisesRegex(ValueError, "cleared"):
            fg.ops.relu(x)

    def test_functions_in_python(self):
        class Cube(fg.Function):
            def forward(self, x):
                return x ** 3, x.copy()

            def backward(self, x, dy):
                return 3 * x * x * dy

        class Wrong(Cube):
            def backward(self, x, dy):
                raise RuntimeError("not today")

        self.assertLess(max(fg.check_gradients(lambda x: Cube()(x) + Cube()(x), rows(1, 3))), 1e-7)
        tape = fg.Tape()
        y = fg.ops.sum(Wrong()(tape.variable([1.0])))
        self.assertEqual(tape.nodes()[0]["name"], "Wrong")
        with self.assertRaisesRegex(RuntimeError, "not today"):
            tape.backward(y)

    def test_threads_share_a_tape(self):
        tape = fg.Tape()
        x, sums = tape.variable(rows(1, 64, 64)), []

        def work():
            for _ in range(40):
                sums.append(fg.ops.sum(fg.ops.gelu(x)))

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(len(tape.nodes()), 640)
        self.assertEqual(len({y.value.item() for y in sums}), 1)

    def test_ten_thousand_tapes_leave_no_byte(self):
        def pass_once():
            tape = fg.Tape()
            x = tape.variable(rows(1, 8, 8))
            with tape.scope("layer"):
                tape.backward(fg.ops.sum(fg.ops.gelu(fg.ops.linear(x, tape.parameter(w)))))

        w = fg.normal("w", [8, 8], 1.0, seed=1)
        pass_once()
        before = fg.memory_in_use()
        for _ in range(10000):
            pass_once()
        self.assertEqual(fg.memory_in_use(), before)

    def test_a_child_of_a_fork_computes_the_same(self):
        def value():
            return fg.ops.sum(fg.ops.gelu(fg.Tape().constant(rows(1, 512, 512)))).value.item()

        fg.set_threads(2)
        want = value()
        child = os.fork()
        if child == 0:
            os._exit(0 if value() == want else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
