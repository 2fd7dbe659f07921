"""Chapter 8: attention, a cache, and a small GPT that writes text. Read ch08_attention.md first."""
import foldgrad as fg
import numpy as np


# Exercise 8.1
def attention(q, k, v):
    """Returns the causal attention of one head; all arrays are [T, C]. Row t is a weighted mean of rows 0 ... t of
    v."""
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores = np.where(np.tri(len(q)) > 0, scores, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v


class Cache:
    """The keys and values of the tokens so far, both [t, C]."""

    def __init__(self, channels):
        self.k, self.v = np.zeros((0, channels)), np.zeros((0, channels))

    # Exercise 8.2
    def step(self, q, k, v):
        """Takes q, k and v [C] of the next token, and returns its row of attention [C]."""
        self.k, self.v = np.vstack([self.k, k]), np.vstack([self.v, v])
        scores = self.k @ q / np.sqrt(len(q))
        p = np.exp(scores - scores.max())
        return p / p.sum() @ self.v


def parameters(vocabulary, context, C=32, seed=1):
    """Returns the parameters of a GPT with one layer, by name."""
    shapes = {"table": [vocabulary, C], "places": [context, C], "qkv": [3 * C, C], "out": [C, C], "up": [4 * C, C],
              "down": [C, 4 * C]}
    p = {name: fg.normal(name, shape, 0.1, seed + i) for i, (name, shape) in enumerate(shapes.items())}
    for name in ("first", "second", "last"):
        p[name] = fg.Parameter(name, np.ones(C, np.float32))
    return p


def logits(tape, p, ids):
    """Returns the logits for the T tokens `ids`, a Var [T, vocabulary]. Row t predicts token t + 1."""
    o, w = fg.ops, {name: tape.parameter(q) for name, q in p.items()}
    x = o.embedding(w["table"], tape.constant(ids)) + o.slice(w["places"], 0, 0, len(ids))
    qkv = o.linear(o.rms_norm(x, w["first"]), w["qkv"])
    x = x + o.linear(o.attention_packed(qkv, heads=4, causal=True), w["out"])
    x = x + o.linear(o.gelu(o.linear(o.rms_norm(x, w["second"]), w["up"])), w["down"])
    return o.linear(o.rms_norm(x, w["last"]), w["table"])


# Exercise 8.3
def loss(tape, p, ids):
    """Returns the mean cross-entropy of the predictions of ids[1:], each from the tokens before it."""
    return fg.ops.cross_entropy(logits(tape, p, ids[:-1]), tape.constant(ids[1:]))


# Exercise 8.4
def choose(logits, temperature, top_k, u):
    """Draws a token from softmax(logits / temperature), where only the top_k largest logits can be drawn.

    u, a number in [0, 1), determines the token: it is the first one, in the order of tokens, whose cumulative
    probability exceeds u.
    """
    kept = np.where(logits >= np.sort(logits)[-top_k], logits, -np.inf)
    p = np.exp((kept - kept.max()) / temperature)
    return int(np.argmax(np.cumsum(p) / p.sum() > u))
