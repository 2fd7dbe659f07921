"""Checks of chapter 10. The emulator needs no GPU and no compiler."""
import numpy as np

from foldgrad.course import NotYet, expect, near
from foldgrad.course.emulator import Fault, launch

THINK = {"not an element": "A thread accesses one element at a time. Of which row, and of which column?",
         "out of bounds": "Which index is outside the shape? C need not be a multiple of the number of threads, and "
                          "not every thread has a word to add.",
         "blocks": "Blocks cannot communicate. Which row is that of this block?",
         "all use": "Either there is no barrier between one thread's write and another thread's access, or some "
                    "threads skip it. Which barrier? Think of a second call of block_sum, too.",
         "no thread has written": "Which thread should have written that word, and is there a barrier in between?",
         "not at the same barrier": "All threads of a block must reach each barrier. Is one inside of an `if`?"}


def ran(kernel, *arguments, case=""):
    for seed in (1, 2, 3):  # each seed gives another order of the threads
        try:
            stats = launch(kernel, *arguments, seed=seed)
        except Fault as e:
            think = next(text for key, text in THINK.items() if key in str(e))
            raise NotYet(f"  case    {case}\n  fault   {e}\n  think   {think}")
        except TypeError as e:
            expect("itera" not in str(e), "A thread waits with `yield`; a function without `yield` is not a generator.",
                   e, "a generator", case)
            raise
    return stats


def check_1(m):
    for threads, C in ((4, 8), (32, 70), (8, 5)):
        of = [list(m.columns(thread, threads, C)) for thread in range(threads)]
        every, case = sorted(c for one in of for c in one), f"{threads} threads, {C} columns"
        expect(set(every) == set(range(C)), "Which thread should handle the missing column, or goes beyond the row?",
               sorted(set(every) ^ set(range(C))), "none missing or beyond the row", case)
        expect(len(every) == C, "Two threads handle the same column. Where does each thread begin, and how far apart "
               "are its columns?", f"{len(every)} columns in all", C, case)

    def copy(t, x, y):
        for c in m.columns(t.thread, t.threads, x.shape[1]):
            y[t.block, c] = x[t.block, c]
        yield

    x = np.ones((1, 256), np.float32)
    got = ran(copy, 1, 32, x, np.zeros_like(x), case="copying 256 columns")["transactions"]
    expect(got == 16, "The 32 threads of a warp read at the same time. Which columns do they read in the first round, "
           "and how many segments of 32 contain these?", f"{got} transactions", "16",
           "copying 256 columns with 32 threads")


def check_2(m):
    def twice(t, x, y):
        y[0, t.thread] = yield from m.block_sum(t, x[0, t.thread])
        y[1, t.thread] = yield from m.block_sum(t, x[1, t.thread])
        yield

    for threads in (1, 2, 8, 64):
        x = np.random.default_rng(threads).normal(size=(2, threads))
        y, case = np.full((2, threads), np.nan), f"{threads} threads, two sums in a row"
        ran(twice, 1, threads, x, y, case=case)
        near(y, np.broadcast_to(x.sum(1, keepdims=True), y.shape), "Each thread must return the sum of all values. "
             "Which words does a round add, and how many rounds are there?", case)


def check_3(m):
    import foldgrad as fg
    for R, C, threads in ((2, 8, 4), (3, 70, 32), (2, 5, 8)):
        draw = np.random.default_rng(C).normal
        x, h, dx = draw(size=(R, C)), draw(size=(R, C)), np.full((R, C), np.nan)
        rrms = 1 / np.sqrt(np.mean(x * x, 1) + 1e-6)
        case = f"{R} rows of {C}, {threads} threads"
        stats = ran(m.rms_norm_backward, R, threads, x, rrms, h, dx, case=case)
        tape = fg.Tape()
        v = tape.variable(x)
        tape.backward(fg.ops.rms_norm(v, tape.constant(np.ones(C))), h)
        wanted = v.grad.numpy()
        expect(not np.isnan(dx).all(), "dx is nan before the call. Which line sets its elements?", "nan", "numbers",
               case)
        think = "Which sum over the row does [RMS-3] need, and with which sign and factor does it enter?"
        along = np.sum(dx * x, 1) / np.sqrt(C)
        if np.abs(along).max() > 1e-3:
            think = "A stretch of the row does not change y, so the sum of x dx must be 0. Which term is wrong?"
        near(dx, wanted, think, f"{case}: dx, compared with the engine's rms_norm")
    expect(stats["barriers"] < 60, "One sum for the whole row is enough.", stats["barriers"], "fewer than 60 barriers")
