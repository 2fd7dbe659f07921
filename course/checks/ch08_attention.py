"""Checks of chapter 8."""
import numpy as np

from foldgrad.course import expect, near, solution

draw = np.random.default_rng(8).normal
q, k, v = draw(size=(5, 4)), draw(size=(5, 4)), draw(size=(5, 4))


def check_1(m):
    import foldgrad as fg
    ours = solution(8).attention
    got = m.attention(q.copy(), k.copy(), v.copy())
    near(got[0], v[0], "Token 0 sees only itself. With which weight? How many weights does your row 0 have?", "row 0")
    ones = m.attention(q, k, np.ones_like(v))
    near(ones, np.ones_like(v), "The weights of a row must sum to 1. In which order do you mask and normalize?",
         "v = 1")
    tape = fg.Tape(False)
    wanted = fg.ops.attention(*(tape.constant(t) for t in (q, k, v)), heads=1, causal=True).value.numpy()
    near(got, wanted, "The weights have the right sum. Which number, which grows with C, divides the products "
         "q . k?", "compared with the engine's attention",
         known=((ours(k, q, v), "Whose query does row t use, and whose keys?"),))
    near(m.attention(1000 * q, k, v), ours(1000 * q, k, v), "What is exp(1000)? What may you subtract from all "
         "scores of a row without changing its weights?", "q is 1000 times as large")


def check_2(m):
    wanted = solution(8).attention(q, k, v)
    cache = m.Cache(4)
    for t in range(5):
        got = cache.step(q[t], k[t], v[t])
        near(cache.k.shape, (t + 1, 4), "The cache has one row for each token so far, including this one.",
             f"token {t}: the shape of cache.k")
        near(cache.v, v[:t + 1], "Which rows must the cache of values contain?", f"token {t}: cache.v")
        near(got, wanted[t], "Attention over all tokens gives another row here. Which keys does this token see, and "
             "are its scores scaled?", f"token {t}")


def check_3(m):
    import foldgrad as fg
    ids = np.array([0, 1, 2, 3, 1, 0, 2, 2])
    p = m.parameters(4, 8)

    def value(of, *given):
        return of(fg.Tape(False), p, *given).value.item()

    ours = solution(8)
    expect(isinstance(m.loss(fg.Tape(), p, ids), fg.Var), "The loss must stay on the tape.", "no Var", "a Var")
    expect(m.loss(fg.Tape(), p, ids).shape == (), "Return one number, the mean over all rows.", "an array",
           "one number")
    same = fg.Tape(False)
    copying = [fg.ops.cross_entropy(ours.logits(same, p, row), same.constant(row)).value.item()
               for row in (ids, ids[:-1])]
    near(value(m.loss, ids), value(ours.loss, ids), "Which tokens go in, and which are the targets? Is it a mean?",
         "eight tokens", 1e-5, [(loss, "Row t of the logits predicts the next token. Which target does row 0 have?")
                                for loss in copying])
    text = np.tile([0, 1, 2, 3], 3)[:9]
    p = m.parameters(4, 8)
    optimizer = fg.AdamW(list(p.values()))
    for _ in range(60):
        optimizer.zero_grad()
        tape = fg.Tape()
        tape.backward(m.loss(tape, p, text))
        optimizer.step(1e-2)
    written = [0]
    for _ in range(6):
        written.append(int(m.logits(fg.Tape(False), p, np.array(written)).value.numpy()[-1].argmax()))
    expect(written == [0, 1, 2, 3, 0, 1, 2], "The loss agrees, but training with it does not teach the text.", written,
           "[0, 1, 2, 3, 0, 1, 2]", "60 updates on 0 1 2 3 0 1 2 3 0")


def check_4(m):
    of = np.log(np.array([0.1, 0.4, 0.2, 0.3]))

    def share(*arguments):
        places = [m.choose(of.copy(), *arguments, u) for u in np.linspace(0, 1, 1000, endpoint=False)]
        expect(all(token in (0, 1, 2, 3) for token in places), "A token is an integer.", places[:3],
               "0, 1, 2 or 3")
        return np.bincount(places, minlength=4) / 1000

    near(share(1.0, 4), np.exp(of), "With temperature 1 and all tokens allowed, each is drawn with its probability. Do "
         "you choose by u, and in the order of tokens?", "temperature 1, top_k 4", 2e-3)
    near([m.choose(of.copy(), 1.0, 4, u) for u in (0.05, 0.3, 0.6, 0.9)], [0, 1, 2, 3], "The pieces of the line "
         "have the right lengths. In which order are they?", "temperature 1, top_k 4, u 0.05, 0.3, 0.6, 0.9")
    near(share(1.0, 2), [0, 4 / 7, 0, 3 / 7], "How many tokens can be drawn, and do their probabilities sum to 1?",
         "temperature 1, top_k 2", 2e-3)
    near(m.choose(of.copy(), 1.0, 2, 0.0), 1, "A token with probability 0 is never drawn. Does its cumulative "
         "probability exceed u?", "temperature 1, top_k 2, u 0")
    cold = np.exp(of / 0.5)
    near(share(0.5, 4), cold / cold.sum(), "A low temperature makes the most probable token still more probable. Where "
         "does the temperature enter?", "temperature 0.5, top_k 4", 2e-3)
    near(share(1e-4, 4), [0, 1, 0, 0], "What is exp(-9000)? What may you add to all logits without changing the "
         "probabilities?", "temperature 0.0001, top_k 4", 2e-3)
