"""Checks of chapter 6: a property must hold for the right version and fail for the planted one."""
import re

import numpy as np

from foldgrad.course import CHAPTERS, NotYet, expect, load

RIGHT = [  # function, planted code, right code
    ("tanh_1", "dy * (1 - y)", "dy * (1 - y * y)"),
    ("square_2", "grad[...] = 2", "grad[...] += 2"),
    ("mean_loss_3", "/ len(losses)", "/ np.sum(counts)"),
    ("dropout_4", "dy * (random.random(x.shape) >= p)", "dy * keep"),
    ("mean_square_5", "return np.mean(x * x, axis=0)", "return np.mean(x[real] ** 2, axis=0)"),
    ("infer_6", 'state["run_var"] *= 0.9\n    state["run_var"] += 0.1 * np.mean(x * x, axis=0)\n    ', ""),
    ("restore_7", "state.update(saved)", "state.update({name: array.copy() for name, array in saved.items()})"),
    ("attention_8", "np.tri(len(q), k=1)", "np.tri(len(q))"),
    ("clip_9", "np.sum(g * g)", "sum(np.sum(h * h) for h in gradients)"),
    ("fold_10", "A[:, None] * W", "A * W"),
]
THINK = [
    "y is right. For which x is dx wrong, and what do you know about dx without deriving it?",
    "A gradient is often the sum of several shares. What does grad contain before the call?",
    "What should not change when you add losses that do not count?",
    "Which elements of dx must be 0, given y? p = 0 and p = 1 reveal little.",
    "What should not change when the numbers in padding rows change? Are your two inputs different arrays?",
    "Suppose you run inference twice. What may the first run change? A second name for an array is not a copy of it.",
    "What is a restored state for? Continue training after restoring: how does training change the arrays?",
    "May row t depend on the rows after it? Change something in these rows, in a copy.",
    "All gradients get the same factor: which relation between two gradients does it preserve?",
    "The docstring says what must be equal for every x and W. Are yours special: zero, diagonal, symmetric?",
]


def right(k):
    """Returns the right version of function k."""
    name, planted, mended = RIGHT[k - 1]
    source = CHAPTERS[5].read_text()
    assert source.count(planted) == 1, planted
    return getattr(load(source.replace(planted, mended), CHAPTERS[5]), name)


def check_properties(m, numbers):
    planted = load(CHAPTERS[5].read_text(), CHAPTERS[5])
    for k in numbers:
        holds = getattr(m, f"property_{k}")
        for f, wanted in ((right(k), True), (getattr(planted, RIGHT[k - 1][0]), False)):
            name = f"the {'right' if wanted else 'planted'} " + re.sub("_[0-9]+", "", RIGHT[k - 1][0])
            try:
                got = holds(f)
            except NotImplementedError:
                raise NotYet(f"  property_{k} is still empty")
            except Exception as e:
                expect(wanted, "It must return False here, not raise. Does this version need another input? Do you use "
                       "`assert`?", f"{type(e).__name__}: {e}", "False", f"property_{k} of {name}")
                raise
            expect(isinstance(got, (bool, np.bool_)), "Does your property return a single bool for all elements?",
                   str(got), "True or False", f"property_{k} of {name}")
            think = ("This version does what its docstring says, up to rounding. Does your property demand more?"
                     if wanted else THINK[k - 1])
            expect(bool(got) == wanted, think, bool(got), wanted, f"property_{k} of {name}")


def check_1(m):
    check_properties(m, range(1, 5))


def check_2(m):
    check_properties(m, range(5, 8))


def check_3(m):
    check_properties(m, range(8, 11))
