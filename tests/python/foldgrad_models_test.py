"""Tests of the foldgrad package: normalizers, optimizers, models, training, files and signals."""
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

from setting import PROGRAM, SOURCES, call, require

require("numpy", "foldgrad")

import foldgrad as fg
import numpy as np
from foldgrad_bits_test import BoundedGain

f32 = np.float32
CONFIG = """[model]
family = "gpt"
width = 8
ffn_width = 8
heads = 2
layers = 1
context = 8
[norm]
name = "un"
[norm.un]
warmup = 4
[data]
task = "language"
[train]
steps = 6
batch = 4
lr = 1e-2
warmup = 2
[validate]
every = 6
[output]
log_every = 1
save_every = 2
keep = 9
"""


def rows(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(f32)


class Normalizers(unittest.TestCase):
    def test_all_are_there_and_compute(self):
        names = [name for line in call(PROGRAM, "norms").splitlines() if line.startswith("  ") for name in line.split()]
        self.assertEqual(sorted(info["name"] for info in fg.normalizers()), sorted(names))
        for info in fg.normalizers():
            n = fg.Normalizer(info["name"], 32)
            self.assertEqual(n(rows(1, 4, 32), training=True).shape, (4, 32))

    def test_layer_norm_and_its_gradients(self):
        x, dy = rows(1, 5, 8), rows(2, 5, 8)
        y, pullback = fg.Normalizer("ln", 8, dtype="f64").vjp(x.astype(float))
        dx, gradients = pullback(dy.astype(float))
        hat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(y.numpy(), hat, rtol=1e-5)  # NumPy computes `hat` in f32
        np.testing.assert_allclose(gradients["norm.weight"].numpy(), (dy * hat).sum(0), rtol=1e-4)
        np.testing.assert_allclose(dx.numpy().mean(1), np.zeros(5), atol=1e-12)  # [LN-4]

    def test_state_is_live_and_restored(self):
        n = fg.Normalizer("un", 4, window=3, warmup=0, flag_low=False)
        n(rows(1, 16, 4), training=True)
        before = n.snapshot()
        first = n(rows(2, 16, 4), training=True).numpy().copy()
        n.restore(before)
        np.testing.assert_array_equal(n(rows(2, 16, 4), training=True).numpy(), first)
        self.assertEqual(n.diagnostics()["iterations"], 2)
        n.state["run_var"].numpy()[:] = 4
        A, B = n.affine()
        np.testing.assert_allclose(A, np.full(4, 0.5), rtol=1e-5)
        self.assertIsNone(fg.Normalizer("ln", 4).affine())

    def test_messages(self):
        for wrong, message in ((lambda: fg.Normalizer("uln", 4), "\"ln\""),
                               (lambda: fg.Normalizer("un", 4, windw=3), "window"),
                               (lambda: fg.Normalizer("un", 4, window=0), "window")):
            with self.assertRaisesRegex(ValueError, message):
                wrong()


class Optimizers(unittest.TestCase):
    def test_sgd_by_hand_and_clipping(self):
        p = fg.Parameter("p", [3.0, 4.0])
        tape = fg.Tape()
        tape.backward(fg.ops.sum(tape.parameter(p) * tape.parameter(p)))
        self.assertAlmostEqual(fg.clip_by_norm([p], 5.0), 10.0)
        fg.SGD([p]).step(0.1)
        np.testing.assert_allclose(p.value.numpy(), [3 - 0.1 * 3, 4 - 0.1 * 4], rtol=1e-6)

    def test_training_and_states(self):
        def losses(optimizer, w, n):
            values = []
            for _ in range(n):
                tape = fg.Tape()
                optimizer.zero_grad()
                loss = fg.ops.sum(fg.ops.tanh(tape.parameter(w)) * tape.parameter(w))
                tape.backward(loss)
                optimizer.step(1e-2)
                values.append(loss.value.item())
            return values

        w = fg.normal("w", [4, 4], 1.0, seed=3)
        adam = fg.AdamW([{"parameters": [w], "weight_decay": 0.1}])
        values = losses(adam, w, 5)
        self.assertLess(values[-1], values[0])
        again, state = fg.Parameter("w", w.value), adam.state()
        other = fg.AdamW([{"parameters": [again], "weight_decay": 0.1}])
        other.load_state(state)
        self.assertEqual(losses(adam, w, 3), losses(other, again, 3))
        with self.assertRaisesRegex(ValueError, "weight_dcay"):
            fg.Adam([{"parameters": [w], "weight_dcay": 0.1}])


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.config = cls.path("config.toml")
        with open(cls.config, "w") as file:
            file.write(CONFIG)
        with open(cls.path("text.txt"), "w") as file:
            file.write("one two three one three two\n" * 200)
        fg.set_threads(1)
        cls.events = []
        cls.run_ = fg.train(cls.config, cls.path("run"), data_dir=cls.folder.name, callback=cls.events.append, progress=False)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def weights(self, run):
        with open(os.path.join(self.path(run), "checkpoints/step-00000006/model.safetensors"), "rb") as file:
            return file.read()

    def test_the_program_trains_the_same_bits(self):
        call(PROGRAM, "--threads", "1", "train", self.config, "--data-dir", self.folder.name, "--out",
             self.path("program"))
        self.assertEqual(self.weights("run"), self.weights("program"))

    def test_events_and_logs(self):
        self.assertEqual([event["event"] for event in self.events][0], "start")
        self.assertEqual(list(self.run_.log["step"]), [1, 2, 3, 4, 5, 6])
        self.assertEqual(list(self.run_.validations["step"]), [6])

    def test_an_interrupted_training_goes_on(self):
        def interrupt(event):
            if event["event"] == "train" and event["step"] == 3:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaisesRegex(KeyboardInterrupt, "saved a checkpoint at step [34]; resume=True"):
            fg.train(self.config, self.path("stopped"), data_dir=self.folder.name, callback=interrupt, progress=False)
        fg.train(self.config, self.path("stopped"), data_dir=self.folder.name, resume=True, progress=False)
        self.assertEqual(self.weights("run"), self.weights("stopped"))

    def test_an_exception_of_the_callback_is_raised(self):
        def fail(event):
            if event["event"] == "train":
                raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            fg.train(self.config, self.path("failed"), data_dir=self.folder.name, callback=fail, progress=False)

    def test_a_model_folds_runs_and_is_saved(self):
        model = self.run_.model()
        self.assertEqual(model.family, "gpt")
        inputs = model.random_inputs()
        folded = model.fold(tied="untie")
        want, got = model.run(inputs)["logits"].numpy(), folded.model.run(inputs)["logits"].numpy()
        # Folding changes the order of operations, so f32 results differ.
        np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())
        self.assertEqual(folded.certificate["format"], "foldgrad certificate")
        folded.save(self.path("folded"))
        np.testing.assert_array_equal(fg.load(self.path("folded")).run(inputs)["logits"].numpy(), got)
        self.assertEqual({check["outcome"] for check in model.verify(tied="untie")} - {"skipped"}, {"passed"})
        self.assertTrue(model.layer_outputs(inputs))
        self.assertIn("digraph", model.graph())
        self.assertIn("model.onnx", model.export_onnx(self.path("onnx")))
        self.assertGreater(self.run_.report(self.path("page.html")).stat().st_size, 1000)

    def test_a_normalizer_of_python_trains_and_folds(self):
        fg.register_normalizer(BoundedGain)
        run = fg.train(self.config, self.path("bounded"), {"norm.name": "bounded", "norm.bounded.slope": 0.5},
                       data_dir=self.folder.name, progress=False)
        model = run.model()
        slopes = [p.value.numpy() for p in model.parameters if p.name.endswith(".slope")]
        self.assertTrue(slopes and all((slope != 0.5).all() for slope in slopes))
        self.assertEqual({check["outcome"] for check in model.verify(tied="untie")} - {"skipped"}, {"passed"})
        folded, inputs = model.fold(tied="untie"), model.random_inputs()
        self.assertEqual({n.name for n in folded.model.normalizers} - {"affine", "scale", "none"}, set())
        self.assertLess(folded.certificate["difference"]["f64"]["relative"], 1e-12)
        with self.assertRaisesRegex(ValueError, '"un" is already registered'):
            fg.register_normalizer(type("Un", (BoundedGain,), {"name": "un"}))

    def test_state_of_a_normalizer_of_python_is_restored(self):
        class Counting:
            name, summary = "counting", "returns x"

            def __init__(self, site):
                self.parameters, self.state = [], first

            def forward(self, x, training):
                self.state["calls"] = fg.Tensor(self.state["calls"].numpy() + 1)  # a new Tensor
                return x

        first = {"calls": fg.Tensor(np.zeros(1))}
        fg.register_normalizer(Counting)
        norm = fg.Normalizer("counting", 2)
        norm(np.ones((3, 2), np.float32))
        saved = norm.snapshot()
        norm(np.ones((3, 2), np.float32))
        self.assertEqual((saved["calls"].numpy(), norm.state["calls"].numpy()), (1, 2))
        norm.restore(saved)
        self.assertEqual(norm.state["calls"].numpy(), 1)
        first = {"calls": np.zeros(1)}
        with self.assertRaisesRegex(TypeError, r'state\["calls"\] .* must be a Tensor'):
            fg.Normalizer("counting", 2)
        first = ["calls"]
        with self.assertRaisesRegex(TypeError, "must be a dict"):
            fg.Normalizer("counting", 2)

    def test_text_is_what_the_program_writes(self):
        written = call(PROGRAM, "--threads", "1", "generate", self.path("run"), "--prompt", "one ", "--length", "9",
                       "--temperature", "0.7", "--top-k", "3", "--seed", "5")
        model = self.run_.model()
        self.assertEqual(model.generate("one ", 9, temperature=0.7, top_k=3, seed=5) + "\n", written)
        for wrong, message in ((lambda: model.generate("one", -1), "at least 0"),
                               (lambda: model.generate("Z", 1), 'no character "Z"'),
                               (lambda: model.translate(["one"]), "one that translates.*this is a gpt"),
                               (lambda: model.classify([]), "one that classifies images")):
            with self.assertRaisesRegex(ValueError, message):
                wrong()

    def test_other_families_do_what_the_program_does(self):
        small = {"model.width": 16, "model.ffn_width": 16, "model.heads": 2, "train.steps": 2, "train.warmup": 1,
                 "validate.every": 2, "output.save_every": 2}
        sources, configs = "zwölf\nsiebenhundertdrei\n", os.path.join(SOURCES, "configs")
        run = fg.train(configs + "/numbers.toml", self.path("numbers"), progress=False, settings={
            **small, "model.encoder_layers": 1, "model.decoder_layers": 1, "train.max_tokens": 512,
            "data.valid_pairs": 5})
        self.assertEqual("\n".join(run.model().translate(sources.splitlines(), beam=2)) + "\n",
                         call(PROGRAM, "--threads", "1", "translate", str(run.path), "--beam", "2", stdin=sources))
        with self.assertRaisesRegex(fg.FileError, "line 2"):
            run.model().translate(["zwölf", "x" * 20000])
        run = fg.train(configs + "/shapes-vit.toml", self.path("shapes"), progress=False, settings={
            **small, "model.layers": 1, "data.train_images": 64, "data.valid_images": 8})
        record = bytes([3]) + np.random.default_rng(1).bytes(3072)  # CIFAR-10's format: a label, 3 planes of 32 x 32
        with open(self.path("one.bin"), "wb") as file:
            file.write(record)
        picture = np.frombuffer(record[1:], np.uint8).reshape(3, 32, 32).transpose(1, 2, 0)
        printed = json.loads(call(PROGRAM, "classify", str(run.path), self.path("one.bin"), "--json"))
        self.assertEqual(run.model().classify([picture])[0],
                         [(row["class"], row["probability"]) for row in printed[0]["classes"]])

    def test_errors(self):
        with self.assertRaisesRegex(fg.ConfigError, "train.stps"):
            fg.train(self.config, self.path("x"), settings={"train.stps": 1})
        with self.assertRaises(fg.CheckpointError):
            fg.load(self.path("nowhere"))
        with self.assertRaises(FileNotFoundError) as caught:
            fg.read_safetensors(self.path("nowhere"))
        self.assertIsInstance(caught.exception, fg.FileError)
        self.assertEqual(caught.exception.filename, self.path("nowhere"))

    def test_files(self):
        fg.write_safetensors(self.path("x.safetensors"), {"a": rows(1, 2, 3), "b": np.arange(3)})
        tensors, _ = fg.read_safetensors(self.path("x.safetensors"))
        np.testing.assert_array_equal(tensors["a"].numpy(), rows(1, 2, 3))
        self.assertEqual(tensors["b"].dtype, "i64")


class Processes(unittest.TestCase):
    def python(self, *words, **environment):
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=dict(
            os.environ, PYTHONPATH=os.environ["FOLDGRAD_PACKAGE"], **environment))

    def test_the_console_script_is_the_program(self):
        self.assertEqual(self.python("-m", "foldgrad", "norms").stdout, call(PROGRAM, "norms"))
        wrong = self.python("-m", "foldgrad", "norm")
        self.assertEqual((wrong.returncode, wrong.stderr.splitlines()[0][:24]), (2, "error: there is no comma"))

    def test_importing_imports_nothing_else(self):
        code = "import foldgrad, sys; sys.exit(int('numpy' in sys.modules or 'torch' in sys.modules))"
        done = self.python("-c", code)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_process_ends_with_live_objects(self):
        done = self.python("-c", """
import foldgrad as fg
class Double(fg.Function):
    def forward(self, x): return 2 * x, self
    def backward(self, saved, dy): return 2 * dy
tape = fg.Tape()
x = fg.Tensor([1.0, 2.0], copy=False)
y = fg.Normalizer("un", 2, dtype="f64").apply(Double()(tape.variable([[1.0, 2.0]])), training=True)
fg.Keeps = tape, x, y
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_orders_of_imports_give_the_same_bits(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("there is no torch")
        printed = set()
        for imports in ("import foldgrad as fg", "import torch; import foldgrad as fg", "import foldgrad as fg; import torch"):
            done = self.python("-c", imports + """
import numpy as np, sys
if "torch" in sys.modules:
    torch.nn.Linear(300, 300)(torch.ones(300, 300)).sum().backward()
x = np.random.default_rng(1).normal(size=(300, 300)).astype("f")
tape = fg.Tape()
v = tape.variable(x)
tape.backward(fg.ops.sum(fg.ops.gelu(fg.ops.linear(v, v))))
print(hash(v.grad.numpy().tobytes()))
""", PYTHONHASHSEED="1")
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.add(done.stdout)
        self.assertEqual(len(printed), 1)

    def test_a_cpu_without_the_instructions_is_refused(self):
        with open("/proc/cpuinfo") as file:
            flags = next(line for line in file if line.startswith("flags"))
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(flags.replace(" avx2", ""))
            file.flush()
            fg._cpu.require_level(2, file.name)
            with self.assertRaisesRegex(ImportError, "x86-64-v3, and this one lacks avx2;"):
                fg._cpu.require_level(3, file.name)

    def test_a_grid_starts_this_program(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {"config.toml": CONFIG, "text.txt": "one two three one three two\n" * 200,
                     "grid.toml": 'config = "config.toml"\nseeds = [1]\n[lists]\ntrain.lr = [1e-2]\n'}
            for name, text in files.items():
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            done = self.python("-m", "foldgrad", "grid", folder + "/grid.toml", "--out", folder + "/runs", "--data-dir",
                               folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(folder + "/runs/grid.md"))

    def test_a_storm_of_signals_changes_no_bit(self):
        # Signals can corrupt only matrix products with a long inner axis (engine/cpu/blocked_signals.h). The last two
        # storms compute such products, with inner axes of 16,384: the gradient of the weight, and the gradient of x.
        done = self.python("-c", """
import signal, sys, time
sys.path.insert(0, sys.argv[1])
from foldgrad_bits_test import cases, computed, np, ops, rows
storms = [(case, 0.02) for case in cases(16).values()]
storms += [((ops.linear, rows(1, n, 256), rows(2, out, 256)), 1.2) for n, out in ((16384, 64), (64, 16384))]
came = []
signal.signal(signal.SIGALRM, lambda *_: came.append(1))
for (f, *arrays), seconds in storms:
    y, dy, gradients = computed(f, arrays, dy_seed=3)
    want, before, end = [y, *gradients.values()], len(came), time.time() + seconds
    signal.setitimer(signal.ITIMER_REAL, 5e-4, 5e-4)
    while time.time() < end or len(came) <= before + 3:  # on a busy machine, few signals arrive in this time
        y, _, gradients = computed(f, arrays, 3, dy)
        assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip([y, *gradients.values()], want)), f
    signal.setitimer(signal.ITIMER_REAL, 0)
""", os.path.dirname(__file__), OMP_NUM_THREADS="2")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
