"""Tests foldgrad.torch, which makes the normalizers modules of PyTorch."""
import copy
import os
import tempfile
import unittest
from unittest import mock

from setting import require

require("numpy", "safetensors", "torch", "foldgrad")

import foldgrad as fg
import pytorch_model
import torch
from foldgrad.torch import Norm
from model_files import load_config, load_values, model_directory

TRAINING = """
[model]
width = 16
ffn_width = 32
heads = 4
encoder_layers = 1
decoder_layers = 1
share_embeddings = "decoder"
dropout = 0
attention_dropout = 0
activation_dropout = 0
[norm]
name = "un"
[norm.un]
warmup = 10
[data]
directory = ""
[train]
steps = 50
optimizer = "adamw"
weight_decay = 0
lr = 3e-3
warmup = 10
label_smoothing = 0
[validate]
every = 50
beam = 1
[output]
log_every = 1
save_every = 50
"""
WORDS = {"de": "ein zwei drei vier".split(), "en": "one two three four five".split()}


def rows(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


class Norms(unittest.TestCase):
    def test_layer_norm_is_that_of_pytorch(self):
        ours, theirs = Norm("ln", 8, torch.float64), torch.nn.LayerNorm(8, dtype=torch.float64)
        with torch.no_grad():
            for p, values in ((ours.weight, rows(1, 8)), (ours.bias, rows(2, 8))):
                p.copy_(values)
            theirs.load_state_dict(ours.state_dict())
        x, dy = rows(3, 4, 5, 8), rows(4, 4, 5, 8)
        results = []
        for module in (ours, theirs):
            given = x.clone().requires_grad_()
            module(given).backward(dy)
            results.append([given.grad, module.weight.grad, module.bias.grad])
        for got, want in zip(*results):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)

    def test_every_normalizer_equals_vjp(self):
        for info in fg.normalizers():
            name = info["name"]
            options = {"groups": 4} if name == "groupnorm" else {}
            module, norm = Norm(name, 8, **options), fg.Normalizer(name, 8, **options)
            for step in range(3):
                x, dy = (rows(10 * step + i, 16, 8, dtype=torch.float32) for i in range(2))
                given = x.clone().requires_grad_()
                y = module(given)
                y.backward(dy)
                want, pullback = norm.vjp(x.numpy())
                dx, _ = pullback(dy.numpy())
                torch.testing.assert_close(y.detach(), torch.from_dlpack(want), rtol=0, atol=0, msg=name)
                torch.testing.assert_close(given.grad, torch.from_dlpack(dx), rtol=0, atol=0, msg=name)
            for key, value in norm.state.items():
                torch.testing.assert_close(module.state_dict()[key], torch.from_dlpack(value), rtol=0, atol=0)

    def test_optimizers_of_pytorch_train_it(self):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(2, 16), Norm("un", 16, warmup=5), torch.nn.Tanh(),
                                    torch.nn.Linear(16, 1))
        x = rows(6, 64, 2, dtype=torch.float32)
        target = x[:, :1] * x[:, 1:]
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.3 * losses[0])
        self.assertEqual(model[1].norm.diagnostics()["iterations"], 60)
        model.eval()
        other = copy.deepcopy(model)
        torch.testing.assert_close(other(x), model(x), rtol=0, atol=0)
        A, B = (torch.from_numpy(array).float() for array in model[1].norm.affine())
        hidden = model[0](x)
        # A and B are computed in f64 and rounded; the module computes in f32.
        torch.testing.assert_close(model[1](hidden), A * hidden + B, rtol=1e-5, atol=1e-5)

    def test_wrong_uses(self):
        module = Norm("ln", 8)
        for wrong, kind, message in ((lambda: module.double(), TypeError, "neither device nor dtype can be changed"),
                                     (lambda: Norm("ln", 8, torch.float16), TypeError, "float32 or float64"),
                                     (lambda: Norm("uln", 8), ValueError, "did you mean"),
                                     (lambda: module(rows(1, 3, 4).float()), ValueError, "channels")):
            with self.assertRaisesRegex(kind, message):
                wrong()
        x = rows(1, 3, 8, dtype=torch.float32).requires_grad_()
        y = module(x)
        with torch.no_grad():
            module.weight.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()

    def test_none_is_not_the_same_memory(self):
        x = rows(1, 3, 8, dtype=torch.float32)
        y = Norm("none", 8)(x)
        y.add_(1)
        torch.testing.assert_close(x, rows(1, 3, 8, dtype=torch.float32), rtol=0, atol=0)

    def test_a_transformer_has_the_losses_of_the_trainer(self):
        # All sentences have the same length and fit into one batch, so PyTorch needs no padding.
        sentences = {language: [[words[(i * i + j) % len(words)] for j in range(3)] for i in range(16)]
                     for language, words in WORDS.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = lambda name: os.path.join(folder, name)
            for name, text in {"config.toml": TRAINING, **{f"{split}.{language}": "".join(
                    " ".join(words) + "\n" for words in lines) for language, lines in sentences.items()
                    for split in ("train", "valid")}}.items():
                with open(path(name), "w") as file:
                    file.write(text)
            train = lambda out, settings: fg.train(path("config.toml"), path(out), settings, folder, progress=False)
            train("first", {"train.steps": 1, "validate.every": 1, "output.save_every": 1})
            want = train("run", {"train.from": path("first"), "train.reset_iterations": False}).log
            start = model_directory(path("first"))
            config = load_config(start)
            norm = lambda config, site: Norm("un", config["model"]["width"], **config["norm"]["options"])
            with mock.patch.object(pytorch_model, "make_norm", norm):
                model = pytorch_model.Transformer(config)
            model.load_state_dict(load_values(start, model), strict=False)
            batch = []
            for side, lines in zip(("source", "target"), sentences.values()):
                with open(os.path.join(start, f"vocabulary/dict.{side}.txt")) as file:
                    ids = {line.split()[0]: 4 + i for i, line in enumerate(file)}
                batch.append(torch.tensor([[ids[word] for word in words] + [2] for words in lines]))
        source, target = batch
        given = target.roll(1, 1)
        optimizer, losses = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0), []
        for lr in want["lr"]:
            optimizer.zero_grad()
            optimizer.param_groups[0]["lr"] = lr
            loss = torch.nn.functional.cross_entropy(model(source, given)[0].flatten(0, 1), target.flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0] / 2)
        # Summing in another order changes f32 results by about 1e-7, and 50 updates amplify this difference.
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(want["loss"]).float(), rtol=0, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
