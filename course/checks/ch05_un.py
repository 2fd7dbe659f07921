"""Checks of chapter 5. They compare the student's UN with the engine's: step by step, beginning with the smallest
settings, and then in sequences of passes that Hypothesis generates."""
import functools

import numpy as np

from foldgrad.course import near, several

SETTINGS = [(1, 0), (2, 0), (2, 5), (3, 0), (4, 8)]  # window, warm-up
ACTIVE = "Is this iteration active? Check the three conditions: two on t and one on M."


def histories():
    """Yields window, warm-up and steps for each setting. A step has x, dy, and the engine's y, dx, and states after
    forward and after backward."""
    import foldgrad as fg
    for window, warmup in SETTINGS:
        draw = np.random.default_rng(window).normal
        n = fg.Normalizer("un", 2, dtype="f64", window=window, warmup=warmup)
        steps = []
        for _ in range(12):
            x, dy = (draw(size=(3, 2)) * np.exp(draw(size=2))).round(1), draw(size=(3, 2)).round(1)
            y, pullback = n.vjp(x)
            after = {name: value.numpy().copy() for name, value in n.state.items()}
            dx, _ = pullback(dy)
            steps.append((x, dy, y.numpy(), dx.numpy(), after, n.snapshot()))
        yield window, warmup, steps


def case(window, warmup, inputs, name):
    """Returns the text of a case: the settings, and the arrays x, or x and dy, of all steps so far."""
    steps = (f"          step {t}: " + ", ".join(f"{n} = {a.tolist()}" for n, a in zip(("x", "dy"), arrays))
             for t, arrays in enumerate(inputs, 1))
    return "\n".join([f"window {window}, warm-up {warmup}, step {len(inputs)}: {name}", *steps])


def check_1(m):
    near(m.geometric_mean(np.array([[1.0, 2.0], [4.0, 2.0], [16.0, 2.0]])), [4, 2], "The mean of 1, 4 and 16 is 7; "
         "their geometric mean is 4. Which root of which product is that?", "columns (1, 4, 16) and (2, 2, 2)")
    near(m.geometric_mean(np.array([[1e-200], [1e-200], [1e-200]])) * 1e200, [1], "The product of three such numbers "
         "is 0 in f64. On which scale is the geometric mean an arithmetic mean?",
         "three times 1e-200: your result times 1e200")


def check_2(m):
    for window, warmup, steps in histories():
        un = m.UN(2, window, warmup)
        for t, (x, _, y, _, after, _) in enumerate(steps, 1):
            before, at = un.win_sq.copy(), functools.partial(case, window, warmup, [step[:1] for step in steps[:t]])
            z, _ = several(un.forward(x), "z, saved")
            near(un.t, t, "t is 1 in the first iteration.", at("t"))
            has, wanted = (np.sort(np.ravel(rows)).round(9) for rows in (un.win_sq, after["win_sq"]))
            near(un.win_sq, after["win_sq"], "The numbers are right, but their rows are not. Which row does "
                 "iteration t write?"
                 if np.array_equal(has, wanted) else "Iteration t writes q into row t mod M. Which mean is q?",
                 at("win_sq"))

            def by(square):
                return x / np.sqrt(square + un.eps)

            think = ("Almost. Where is eps: inside the root, outside of it, or forgotten?"
                     if np.shape(z) == y.shape and np.allclose(z, y, 1e-3) else
                     "Which number divides x: q of this batch, or the geometric mean of the window? Is it a root?")
            rows = after["win_sq"]
            near(z, y, think, at("z"), known=(
                (by(np.mean(x * x, 0)), ACTIVE), (by(np.exp(np.log(rows).mean(0))), ACTIVE),
                (by(rows.mean(0)), "Which mean of the window does [UN-16] take?"),
                (by(np.exp(np.log(before).mean(0))), "Is the q of this iteration in the window when you average it?"),
                (by(un.run_var), "run_var is for inference. Which number divides x in training?")))
            near(un.run_var, after["run_var"], "Which number does run_var average, in which iterations, and "
                 "what weight does the old value get?", at("run_var"))


def check_3(m):
    for window, warmup, steps in histories():
        un = m.UN(2, window, warmup)
        for t, (x, dy, _, dx, _, after) in enumerate(steps, 1):
            at = functools.partial(case, window, warmup, [step[:2] for step in steps[:t]])
            saved, old, rows, a = several(un.forward(x), "z, saved")[1], 1 * un.psi_ema, 1 * un.win_g, un.alpha
            got = un.backward(saved, dy)
            G, psi_ema = (after[name].numpy() for name in ("win_g", "psi_ema"))
            near(un.win_g, G, "G is the mean of dy z over the rows. Into which row of win_g does it go?", at("win_g"))
            weight = "Which weight does the old psi_ema get, and which one does the new number get?"
            new = (psi_ema - a * old) / (1 - a)
            near(un.psi_ema, psi_ema, "psi_ema changes in each iteration. Does it average G, or a mean of G, and "
                 "since which iteration?", at("psi_ema"), known=(
                     ((1 - a) * old + a * new, weight), (old + new, weight), (new, weight),
                     (a * old + (1 - a) * rows.mean(0) if t > 1 else np.inf,
                      "Is the G of this pass in win_g when you take its mean?")))
            near(got, dx, "With a window of 1, no iteration is active. Where do forward() and backward() check that?"
                 if window == 1 and t > 1 else
                 "Which of G and psi_ema is in dx here, and what does rstd scale? During the warm-up, dx is exact.",
                 at("dx"))
    check_orders(m)


def check_orders(m):
    """Lets Hypothesis look for a short sequence of passes in which m.UN and the engine's UN differ. Backward passes may
    be delayed."""
    import foldgrad as fg
    from hypothesis import given, settings, strategies

    @settings(max_examples=100, deadline=None, derandomize=True, database=None, report_multiple_bugs=False)
    @given(strategies.lists(strategies.sampled_from([0, 0, 0, 1, 2, 3]), min_size=6, max_size=10))
    def compare(choices):  # 0 begins a pass, k finishes the k-th pass that is waiting
        un, n = m.UN(1, 2, 0), fg.Normalizer("un", 1, dtype="f64", window=2, warmup=0)
        lines, waiting, begun = [], {}, 0
        for k in choices:
            if k == 0:
                begun += 1
                x = np.array([[1.0], [2.0 + begun % 3]])
                waiting[begun] = un.forward(x)[1], n.vjp(x)[1]
                lines.append(f"          pass {begun}: forward(), x = {x.tolist()}")
            elif k <= len(waiting):
                number = list(waiting)[k - 1]
                saved, pullback = waiting.pop(number)
                dy = np.array([[1.0], [number - 3.0]])
                lines.append(f"          pass {number}: backward(), dy = {dy.tolist()}")
                got, dx = un.backward(saved, dy), pullback(dy)[0].numpy()
                for name, value, wanted in (("win_g", un.win_g, n.snapshot()["win_g"].numpy()), ("dx", got, dx)):
                    near(value, wanted, "Other forward passes may run before the backward pass, and some passes "
                         "have no backward pass. What does backward() read from self, and which "
                         "pass wrote it?",
                         "\n".join([f"window 2, warm-up 0, one channel: {name}", *lines]))
    compare()


def check_4(m):
    import foldgrad as fg
    x = np.random.default_rng(1).normal(size=(5, 2)) * [1, 3]
    un, n = m.UN(2, 2, 0), fg.Normalizer("un", 2, dtype="f64", window=2, warmup=0)
    for scale in (1, 2, 0.5):
        un.forward(scale * x)
        n(scale * x, training=True)
    un.psi_ema = np.array([0.5, -0.3])
    for name, value, wanted, think in zip(
            "AB", several(un.affine(), "A, B"), n.affine(),
            ("At inference there is no batch. Which state replaces var_hat, and where is eps?",
             "What does UN return for x = 0 at inference? B has one such number for each channel.")):
        near(value, wanted, think, name)
