"""Checks of chapter 5: the student's UN next to the engine's, step by step with the smallest settings first, then by
Hypothesis."""
import numpy as np

from foldgrad.course import NotYet, expect, near

SETTINGS = [(1, 0), (2, 0), (2, 5), (3, 0), (4, 8)]  # window, warm-up
WINDOW = "Iteration t writes row t mod M of win_sq. What does it write?"
FIRST = "In which iteration is the window full before the current one? Which iterations are warm-up?"


def histories():
    """Yields, step by step, the student's settings, x, dy and the engine's y, dx and state."""
    import foldgrad as fg
    for window, warmup in SETTINGS:
        draw = np.random.default_rng(window).normal
        n = fg.Normalizer("un", 2, dtype="f64", window=window, warmup=warmup)
        steps = []
        for _ in range(12):
            x, dy = draw(size=(5, 2)) * np.exp(draw(size=2)), draw(size=(5, 2))
            y, pullback = n.vjp(x)
            after = {name: value.numpy().copy() for name, value in n.state.items()}
            dx, _ = pullback(dy)
            steps.append((x, dy, y.numpy(), dx.numpy(), after, n.snapshot()))
        yield window, warmup, steps


def passed(un, x):
    got = un.forward(x)
    expect(isinstance(got, tuple) and len(got) == 2, "backward() gets back what you return next to z.",
           type(got).__name__, "a pair: z, and what backward() needs")
    return got


def case(window, warmup, t, name):
    return f"window {window}, warm-up {warmup}, step {t}: {name}"


def check_1(m):
    near(m.geometric_mean(np.array([[1.0, 2.0], [4.0, 2.0]])), [2, 2], "The geometric mean of 1 and 4 is 2, not 2.5. "
         "What does it do to a product?", "columns (1, 4) and (2, 2)")
    near(m.geometric_mean(np.array([[1e-200], [1e-200], [1e-200]])) * 1e200, [1], "The product of three such numbers "
         "is 0 in f64. On which scale is the mean an arithmetic one?", "three times 1e-200")


def check_2(m):
    for window, warmup, steps in histories():
        un = m.UN(2, window, warmup)
        for t, (x, _, y, _, after, _) in enumerate(steps, 1):
            before = un.win_sq.copy()
            z, _ = passed(un, x)
            near(un.t, t, "t is 1 in the first iteration.", case(window, warmup, t, "t"))
            near(un.win_sq, after["win_sq"], WINDOW, case(window, warmup, t, "win_sq"))
            q = np.mean(x * x, 0)
            think = "Which number divides x, q of this batch or the mean of the window?"
            if np.allclose(z, y, 1e-3):
                think = "Nearly. Where is eps, in the root or outside?"
            elif np.allclose(x / np.sqrt(q + un.eps), z) or np.allclose(x / np.sqrt(q + un.eps), y):
                think = FIRST
            elif np.allclose(x / np.sqrt(np.exp(np.log(before).mean(0)) + un.eps), z):
                think = "Is the q of this iteration in the window when you take its mean?"
            near(z, y, think, case(window, warmup, t, "z"))
            near(un.run_var, after["run_var"], "Which number does run_var average, in which iterations, and "
                 "what weight does the old value get?", case(window, warmup, t, "run_var"))


def check_3(m):
    for window, warmup, steps in histories():
        un = m.UN(2, window, warmup)
        for t, (x, dy, _, dx, _, after) in enumerate(steps, 1):
            got = un.backward(passed(un, x)[1], dy)
            near(un.win_g, after["win_g"].numpy(), "G is a mean over the rows of two factors. Which row does it go to?",
                 case(window, warmup, t, "win_g"))
            near(un.psi_ema, after["psi_ema"].numpy(), "psi_ema moves in each iteration. By G, or by a mean of G, and "
                 "from which iteration on?", case(window, warmup, t, "psi_ema"))
            think = "Which of G and psi_ema is in dx here, and what does rstd scale? In the warm-up dx is exact."
            near(got, dx, think, case(window, warmup, t, "dx"))
    held_by_hypothesis(m)


def held_by_hypothesis(m):
    """Lets Hypothesis look for a short history in which both differ; passes may wait for their backward passes."""
    import foldgrad as fg
    from foldgrad import testing
    from hypothesis import Phase, settings
    from hypothesis.stateful import run_state_machine_as_test

    machine = testing.machine(lambda: fg.Normalizer("un", 2, dtype="f64", window=2, warmup=3), lambda: m.UN(2, 2, 3))
    try:
        for steps in (6, 9, 14):  # short histories first, instead of long ones that are shortened, which takes minutes
            run_state_machine_as_test(machine, settings=settings(
                max_examples=25, stateful_step_count=steps, phases=[Phase.generate], deadline=None, derandomize=True,
                database=None, print_blob=False))
    except AssertionError as e:
        history = [line for note in getattr(e, "__notes__", []) for line in note.split("\n") if "state." in line]
        raise NotYet("\n".join(["  case    window 2, warm-up 3, array(rows, seed, factor) at random:",
                                *(f"          {line}" for line in history), f"  got     {str(e).splitlines()[0]}",
                                "  think   Here a second forward() runs before the first backward(). Which pass do the "
                                "numbers that your backward() uses come from?"])) from None


def check_4(m):
    import foldgrad as fg
    x = np.random.default_rng(1).normal(size=(5, 2)) * [1, 3]
    un, n = m.UN(2, 2, 0), fg.Normalizer("un", 2, dtype="f64", window=2, warmup=0)
    for scale in (1, 2, 0.5):
        passed(un, scale * x)
        n(scale * x, training=True)
    got = un.affine()
    expect(isinstance(got, tuple) and len(got) == 2, "An affine map has a factor and a summand.", got, "a pair A, B")
    for name, value, wanted in zip("AB", got, n.affine()):
        near(value, wanted, "At inference there is no batch. Which state replaces var_hat, and where is eps?", name)
