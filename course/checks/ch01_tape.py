"""Checks of chapter 1."""
import math

from foldgrad.course import expect, near


def passed_back(tape, y, dy):
    y.grad = dy
    for step in reversed(tape.steps):
        step()


def value_and_step(y, tape, value):
    expect(hasattr(y, "value"), "add() wraps the result in a new Var and returns it.", y, "a Var")
    near(y.value, value, "Which number is the result of the operation itself?", "the value")
    expect(len(tape.steps) == 1, "add() appends a function to the tape. When does yours append one?",
           f"{len(tape.steps)} steps", "1 step on the tape")
    expect(callable(tape.steps[0]), "Did you append the function, or what it returns? When must it run?",
           tape.steps[0], "a function on the tape")


BACKWARD = "Nothing arrived. Which gradient does the step read when it runs, and which Vars get a share of it?"


def check_1(m):
    tape = m.Tape()
    a, b = m.Var(tape, 3.0), m.Var(tape, 5.0)
    y = m.mul(a, b)
    value_and_step(y, tape, 15)
    passed_back(tape, y, 7.0)
    known = ((5, "dL/da is a product of two factors. Which one says how much L depends on y?"), (0, BACKWARD),
             (21, "Hold b still and increase a by 1: by how much does y grow?"))
    near(a.grad, 35, "What is dy/da, and what is dL/dy?", "a = 3, b = 5, y.grad = 7: a.grad", known=known)
    near(b.grad, 21, "Ask the same questions for b.", "a = 3, b = 5, y.grad = 7: b.grad")
    think = "Another use of the Var had already added 10. What happens to that first share when a second one arrives?"
    for name, v, wanted in (("a", a, 45), ("b", b, 31)):
        v.grad = 10.0
        tape.steps[0]()
        near(v.grad, wanted, think, f"{name}.grad was 10")
    x = m.Var(m.Tape(), 3.0)
    passed_back(x.tape, m.mul(x, x), 1.0)
    near(x.grad, 6, "Both operands are the same Var here. Does each add its share?", "x * x at 3: x.grad")


def check_2(m):
    tape = m.Tape()
    x = m.Var(tape, 0.5)
    y = m.exp(x)
    value_and_step(y, tape, math.exp(0.5))
    passed_back(tape, y, 3.0)
    near(x.grad, 3 * math.exp(0.5), "Which function is its own derivative, and where is its value stored?",
         "x = 0.5, y.grad = 3: x.grad", known=((y.value, "This is dy/dx. What is dL/dx?"), (0, BACKWARD)))
    x.grad, y.grad = 10.0, 1.0
    tape.steps[0]()
    near(x.grad, 10 + y.value, "Another operation had already added 10 to x.grad. Is it still there?", "x.grad was 10")


def check_3(m):
    tape, seen = m.Tape(), []
    loss = m.Var(tape, 2.0)
    for k in range(3):
        tape.steps.append(lambda k=k: seen.append((k, loss.grad)))
    m.backward(loss)
    order = [k for k, _ in seen]
    expect(sorted(order) == [0, 1, 2], "Each recorded step must run exactly once.", f"steps {order}", "steps [2, 1, 0]")
    expect(order == [2, 1, 0], "A step reads y.grad. Which steps must have run before it is complete?",
           f"steps {order}", "steps [2, 1, 0]")
    near(seen[0][1], 1, "What is dL/dL, and what sets it before the first step runs?", "loss.grad in the first step")
    expect(not tape.steps, "What would a second call of backward() do to the gradients?",
           f"{len(tape.steps)} steps left", "an empty tape")


def check_4(m):
    def f(v):
        return v[0] ** 3 * v[1] + 4 * v[1]

    values = [0.3, 2.0]
    case = "x^3 y + 4y at (0.3, 2), k = 0, step = 0.1"
    other = "This is the slope along the other number. Which of them does k select?"
    sides = "This uses f at x itself. For which two points does most of the error cancel?"
    far = "How far apart are the two points at which you evaluate f?"
    relative = "How far do you move values[k], and does that depend on values[k]?"
    known = ((-0.56, "Does f rise or fall here? Which of the two values comes first?"), (4.027, other),
             (0.54, "Which step did you use?"), (0.74, sides), (0.38, sides), (0.28, far), (1.12, far),
             (0.5418, relative), (0.16254, relative), (4.596, "Which of the numbers do you move? All of them?"))
    near(m.difference_quotient(f, values, 0, 0.1), 0.56, far + " Do you move values[k] and nothing else?", case,
         known=known)
    near(m.difference_quotient(f, values, 1), 4.027, "Does your function use k?", "the same, k = 1", 1e-6)
