"""Checks of chapter 9."""
import functools
import itertools
import math
from operator import add

import numpy as np

from foldgrad.course import expect, near

f32 = np.float32


def check_1(m):
    parts = [(k, f32(value)) for k, value in enumerate((3e16, 1, -3e16, 2, 0.1))]
    seen = {}
    for order in itertools.permutations(parts):
        got = m.sum_of_parts(list(order))
        expect(isinstance(got, np.float32), "Return np.float32.", type(got).__name__, "np.float32")
        seen.setdefault(got.tobytes(), (got, [k for k, _ in order]))
    if len(seen) > 1:
        (first, one), (second, other) = list(seen.values())[:2]
        expect(False, "A sum of floating-point numbers depends on the order. Which order is the same whenever the "
               "threads finish?", f"{first} for the order {one}, {second} for {other}", "the same bits for both")
    near(m.sum_of_parts([(1, f32(2)), (0, f32(0.5)), (2, f32(4))]), 6.5, "Each part counts once.", "2 + 0.5 + 4")


def check_2(m):
    for name, values in (("100,000 times 0.1", [f32(0.1)] * 100000),
                         ("1, then 10,000 times 1e-8", [f32(1)] + [f32(1e-8)] * 10000)):
        got, wanted = m.compensated_sum(iter(values)), math.fsum(map(float, values))
        expect(isinstance(got, np.float32), "Did you add all values, in f32?", type(got).__name__, "np.float32", name)
        off, plain = (abs(float(sum) - wanted) / wanted * 2 ** 23 for sum in (got, functools.reduce(add, values)))
        think = "(new - total) is the part of a value that arrived. Where does the rest go, and with which sign?"
        if off > 1.5 * plain:
            think = "The error is larger than without compensation. What is lost of which value, and with which sign?"
        expect(off < 4, think, f"{got}, off by {off:.0f} last bits", f32(wanted), name)


def check_3(m):
    import foldgrad as fg
    bits = np.array([0x3F800000, 0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F818000, 0xBF80FFFF, 0x7F7FFFFF, 0x00000001,
                     0x7F800000, 0x7F800001, 0xFFC00001], np.uint32)
    cases = ("1", "below a tie", "a tie above an even number", "above a tie", "a tie above an odd number", "negative",
             "the largest number", "the smallest", "infinity", "NaN", "negative NaN")
    tie = "Both neighbours are equally far. Which of them has a last bit of 0?"
    think = {1: "Round to the nearer of the two neighbours: this number rounds down.", 2: tie, 4: tie,
             3: "The lower half of the bits says which neighbour is nearer. Did you just drop it?",
             9: "The set fraction bits of this NaN are all in the lower half. What is left without them? The docstring "
                "gives the bits of the result.",
             10: "The docstring names one NaN for all. Which sign does it have?"}
    for k, value in enumerate(bits.view(np.float32)):
        given = np.array([value], f32)
        got, wanted = m.to_bf16(given.copy()), fg.Tensor(given).to("bf16").to("f32").numpy()
        expect(isinstance(got, np.ndarray) and got.dtype == np.float32, "Return a float32 array.",
               getattr(got, "dtype", type(got).__name__), "float32", cases[k])
        has, want = (int(y.view(np.uint32)[0]) for y in (got, wanted))
        expect(has == want, think.get(k, "Print the bits: f'{bits:032b}'."), f"{has:#010x}", f"{want:#010x}",
               f"{int(bits[k]):#010x}, {cases[k]}")


def check_4(m):
    training = m.Training()
    for _ in range(6):
        training.update()
    saved = m.save(training)
    first = [p.value.numpy().copy() for p in training.parameters]
    state = {name: tensor.numpy().copy() for name, tensor in training.norm.state.items()}
    moments = {name: tensor.numpy().copy() for name, tensor in training.optimizer.state().items()}
    wanted = [training.update() for _ in range(4)]
    again = m.resume(saved)
    expect(isinstance(again, m.Training), "Return a Training.", type(again).__name__, "a Training")
    expect(again.step == 6, "On what else than the weights does an update depend?", f"step {again.step}", "step 6")
    for p, value in zip(again.parameters, first):
        expect(np.array_equal(p.value.numpy(), value), "Later updates change the weights in place. What does your "
               "saved dict contain?", f"other bits in {p.name}", f"{p.name} as it was saved")
    for name, value in state.items():
        expect(np.array_equal(again.norm.state[name].numpy(), value), "Which part of a Training remembers earlier "
               "batches? Did you save a copy?", f"other bits in {name} of the normalizer", f"{name} as it was saved")
    for name, value in again.optimizer.state().items():
        expect(np.array_equal(value.numpy(), moments[name]), "Which part of a Training remembers earlier gradients?",
               f"other bits in {name} of the optimizer", f"{name} as it was saved")
    expect([again.update() for _ in range(4)] == wanted, "All states agree before the updates. Does resume() share "
           "arrays with something that changes them?", "other losses", "the same losses to the bit")
