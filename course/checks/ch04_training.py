"""Checks of chapter 4."""
import numpy as np

from foldgrad.course import expect, near, solution


def check_1(m):
    import foldgrad as fg
    x, _ = m.spirals(3)
    p = m.parameters()
    v = {name: q.value.numpy().astype(float) for name, q in p.items()}

    class Tape(fg.Tape):
        def variable(self, *_):
            expect(False, "A variable gets a gradient. Who needs that of x?", "x as a variable", "x without a gradient")

    tape = Tape()
    got = m.logits(tape, x, p)
    expect(isinstance(got, fg.Var), "The backward pass must reach the parameters through the logits.",
           type(got).__name__, "a Var")
    expect(tape.nodes(), "A tape records only operations that need a gradient. Do you use the tape that "
           "you were given, and how do you put a Parameter on it?", "an empty tape", "the operations on the tape")
    hidden = x @ v["w1"].T + v["b1"]
    think = "Print the tape. Which operations are between x and the logits?"
    near(got.value.numpy(), np.tanh(hidden) @ v["w2"].T + v["b2"], think, "the logits of six points", 1e-5)
    tape.backward(got, np.ones(got.shape, np.float32))
    for name, q in p.items():
        expect(q.grad is not None, "A constant gets no gradient. How do you put a Parameter on a tape?", None,
               f"a gradient of {name}")


def check_2(m):
    x, target = m.spirals(20)
    ours, p, q = solution(4), m.parameters(), m.parameters()
    wanted, got = ours.train(q, x, target, 2, 0.01), m.train(p, x, target, 2, 0.01)
    expect(isinstance(got, list) and len(got) == 2, "Return a list of numbers, one for each step.", got,
           "a list of 2 losses")
    near(got[0], wanted[0], "The weights have not changed yet. Is it the mean cross-entropy, computed before the "
         "update?", "loss of step 1", 1e-6)
    near(got[1], wanted[1], "Is the gradient that of this loss, and does the optimizer use lr?", "loss of step 2", 1e-6)
    if p["w1"].grad is not None:
        near(p["w1"].grad.numpy(), q["w1"].grad.numpy(), "A parameter's gradient outlives the tape. What does it "
             "contain when the second backward pass begins?", "gradient after step 2", 1e-5)
    p, q = m.parameters(), m.parameters()
    near(m.train(p, x, target, 4, 0.01), ours.train(q, x, target, 4, 0.01), "The first two steps agree. What does "
         "AdamW remember from step to step, and does your optimizer exist long enough?", "losses of 4 steps", 1e-5)
    p = m.parameters()
    x, target = m.spirals()
    last = m.train(p, x, target, 400, 0.02)[-1]
    expect(last < 0.1, "The first steps agree. Does anything in your loop change after some steps?", last, "below 0.1",
           "the loss of step 400")


def check_3(m):
    import foldgrad as fg
    p = {"w1": fg.Parameter("w1", np.eye(2, dtype=np.float32)), "b1": fg.Parameter("b1", np.zeros(2, np.float32)),
         "w2": fg.Parameter("w2", np.eye(2, dtype=np.float32)), "b2": fg.Parameter("b2", np.zeros(2, np.float32))}
    x = np.array([[1, 0], [2, 1], [0, 1], [1, 3], [5, 1], [4, 2], [0, 3]], np.float32)
    tapes, of_rows = [], m.logits
    m.logits = lambda tape, *given: tapes.append(tape) or of_rows(tape, *given)
    larger, share = "The larger the logit, the more probable its class.", "A fraction is between 0 and 1."
    count = "How many rows are there, and how many are right?"
    near(m.accuracy(p, x, np.array([0, 0, 1, 0, 0, 1, 1])), 5 / 7, "Which rows does the fraction count? How do both "
         "logits of a row determine its spiral?", "5 of 7 rows are right",
         known=((2 / 7, larger), (5, share), (500 / 7, share), (5 / 200, count), (5 / 14, count),
                (3 / 7, "This is the fraction of rows of class 1. Which rows are right?")))
    expect(not any(tape.recording for tape in tapes), "There is no backward pass here. Which tape records nothing?",
           "a tape that records", "a tape that does not record")
