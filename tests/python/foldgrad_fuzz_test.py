"""Calls functions of the foldgrad package with operands and objects of every kind. A call must return or raise an
exception with a message; it must not crash. FOLDGRAD_FUZZ_CALLS is the number of calls, and FOLDGRAD_FUZZ_SEED is
the first seed."""
import os
import tempfile

from setting import expect, require

require("numpy", "foldgrad")

import foldgrad as fg
import numpy as np
from foldgrad_bits_test import CASES
from foldgrad_models_test import CONFIG

CALLS, SEED = (int(os.environ.get("FOLDGRAD_FUZZ_" + name, default)) for name, default in (("CALLS", 3000), ("SEED", 1)))
ALLOWED = (ValueError, TypeError, MemoryError, ArithmeticError, OSError, OverflowError)
DTYPES = ["f4", "f8", "i4", "i8", "u1", "?", "f2", "c16", ">f4", "O", "U3", "M8[s]"]
OBJECTS = [None, True, 0, -1, 3, 1 << 40, 1 << 70, 0.5, float("nan"), float("inf"), "", "f32", "un", b"bytes", [], [1],
           [[1], [1, 2]], (), {}, {"a": 1}, object(), len, slice(1), np.ma.array([1.0], mask=[1])]


def array(random):
    """Returns an array with random dtype, rank, sizes and strides. A size may be 0."""
    dtype = random.choice(DTYPES[:6] if random.random() < 0.8 else DTYPES)
    shape = random.choice([0, 1, 2, 3, 4, 6], size=random.integers(0, 6), p=[.05, .15, .2, .2, .2, .2])
    x = np.zeros(shape, dtype) if dtype in "OU3M8[s]" else np.asarray(4 * random.normal(size=shape)).astype(dtype)
    for axis in range(x.ndim):
        if random.random() < 0.1:
            x = np.flip(x, axis)
    return x.T if random.random() < 0.2 else x


def anything(random):
    return array(random) if random.random() < 0.5 else OBJECTS[random.integers(len(OBJECTS))]


def call_of(random, model):
    """Returns a random call, as a function without arguments."""
    tape = fg.Tape(bool(random.integers(2)))

    def var(a):
        kind = tape.variable if random.random() < 0.7 and np.asarray(a).dtype.kind == "f" else tape.constant
        return kind(a)

    if random.random() < 0.6:
        f, *arrays = CASES[random.choice(list(CASES))]
        replaced = random.integers(-2, len(arrays))  # negative: no operand is replaced
        wrong = anything(random)
        operands = lambda: [wrong if k == replaced and not isinstance(wrong, np.ndarray) else var(
            wrong if k == replaced else a) for k, a in enumerate(arrays)]

        def run():
            y = f(*operands())
            if tape.recording:
                tape.backward(y, array(random) if random.random() < 0.2 else np.ones(y.shape, "f4"))
        return run
    functions = [
        fg.Tensor, fg.Tensor([1.0]).to, fg.from_dlpack, fg.Parameter, fg.uniform, fg.normal, fg.clip_by_norm,
        tape.constant, tape.variable, tape.parameter, tape.grad, tape.backward, tape.scope,
        lambda a, *b: tape.variable([1.0]) + a, lambda a, *b: tape.variable([1.0]) * a,
        fg.Normalizer, fg.Normalizer("un", 4), fg.Normalizer("un", 4).vjp, fg.Normalizer("bn", 4).restore,
        fg.register_normalizer, fg.SGD, fg.Adam, fg.AdamW, fg.AdamW([fg.normal("w", [2], 1.0, seed=1)]).load_state,
        fg.ops.top_k, fg.ops.concat, fg.ops.attention, fg.ops.cross_entropy, fg.ops.sinusoidal_table,
        fg.load, model.save, model.random_inputs, model.fold, model.classify, model.translate,
        lambda *v: model.run(dict(zip(model.inputs, v))), lambda *v: model.layer_outputs(dict(zip(model.inputs, v))),
        lambda a, *b: model.generate(a, 1), fg.read_safetensors, fg.replay_trace, fg.memory_in_use, fg.set_threads,
        lambda *v: fg.write_safetensors("file", *v)]
    f, given = functions[random.integers(len(functions))], [anything(random) for _ in range(random.integers(1, 4))]
    return lambda: f(*given)


def main():
    done, threads = {}, fg.threads()
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        os.chdir(folder)
        for name, text in (("config.toml", CONFIG), ("text.txt", "one two three one three two\n" * 200)):
            with open(name, "w") as file:
                file.write(text)
        model = fg.train("config.toml", "run", data_dir=".", progress=False).model()
        for seed in range(SEED, SEED + CALLS):
            random = np.random.default_rng(seed)
            if seed % 100 == 1:
                print(seed, "...", flush=True)  # shows at which seeds a crash happened
            kind = "result"
            try:
                call_of(random, model)()
            except ALLOWED as error:
                kind = type(error).__name__
                expect(str(error), f"seed {seed}: {kind} without a message")
            done[kind] = done.get(kind, 0) + 1
            fg.set_threads(threads)
    print(done)
    for kind in ("result", "ValueError", "TypeError"):
        expect(done[kind] > CALLS / 20, f"too few calls end with a {kind}")


main()
