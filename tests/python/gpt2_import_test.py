"""Tests examples/gpt2_import.py: an imported model with random weights must compute the logits of Transformers'
GPT-2, and must fold."""
import os
import tempfile

from setting import (PROGRAM, call, change_config, expect, expect_near_greatest, expect_refused, logits_of, printed_by,
                     require)

require("numpy", "safetensors", "torch", "transformers")
import gpt2_import  # noqa: E402
import torch  # noqa: E402
from model_files import load_tensors, save_tensors  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

TOLERANCE = 1e-5  # relative to the largest logit; both sides compute in f32
SIZES = {"vocab_size": 11, "n_positions": 9, "n_embd": 8, "n_layer": 2, "n_head": 2, "bos_token_id": 0,
         "eos_token_id": 0}


def make(directory, **config):
    """Makes a GPT-2 with random weights, biases and gains. Writes it to the directory and returns it."""
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(**SIZES, **config)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape) * 0.4 + (1.0 if ".ln_" in name and name.endswith("weight") else 0.0))
    model.save_pretrained(directory, safe_serialization=True)
    return model


def rewrite(directory, change):
    """Lets change({name: tensor}) edit the tensors of a model's directory in place."""
    path = os.path.join(directory, "model.safetensors")
    tensors = load_tensors(path)
    change(tensors)
    save_tensors(path, tensors)


def without_prefix(tensors):
    """Renames tensors as in the first GPT-2 on the hub, and adds attention masks, which its file also contains."""
    for name in list(tensors):
        tensors[name.removeprefix("transformer.")] = tensors.pop(name)
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 9, 9)
    tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)


def expect_same_logits(files):
    ids = torch.randint(0, 11, (3, 9), generator=torch.Generator().manual_seed(2))
    for name, change, config in (
            ("tied", None, {}), ("hub", without_prefix, {}),
            ("untied", None, {"tie_word_embeddings": False, "n_inner": 20, "layer_norm_epsilon": 1e-2}),
            ("erf", None, {"activation_function": "gelu"})):
        source, out = os.path.join(files, name), os.path.join(files, name + "-imported")
        model = make(source, **config)
        if change:
            rewrite(source, change)
        printed = printed_by(gpt2_import.main, source, out)
        expect(printed == f"{out}: gpt, 2 layers of width 8, 11 tokens, a context of 9\n", printed)
        with torch.no_grad():
            want = model(ids).logits
        expect_near_greatest(name, logits_of(out, ids=ids), want, TOLERANCE)
    expect("error: " + out + ": cannot be created: File exists" in printed_by(gpt2_import.main, source, out),
           "a second import into the same directory must be refused")
    call(PROGRAM, "fold", os.path.join(files, "untied-imported"), "-o", os.path.join(files, "folded"))
    call(PROGRAM, "verify", os.path.join(files, "untied-imported"))


def expect_errors(files):
    def refused(name, message, change=lambda tensors: None, **config):
        source = os.path.join(files, name)
        make(source)
        rewrite(source, change)
        change_config(source, lambda keys: keys.update(config))
        expect_refused(files, name + "-imported", printed_by(gpt2_import.main, source, source + "-imported"), message)
    refused("llama", 'config.json: model_type must be "gpt2", got "llama"', model_type="llama")
    refused("scaled", "scale_attn_by_inverse_layer_idx must be false, got true", scale_attn_by_inverse_layer_idx=True)
    refused("silu", "activation_function must be one of gelu_new, gelu_pytorch_tanh, gelu, relu, got silu",
            activation_function="silu")
    refused("lacking", "model.safetensors: h.1.mlp.c_fc.bias must be [32] per config.json, got none",
            lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.bias"))
    refused("more", "model.safetensors: h.0.adapter must be absent per config.json, got [2]",
            lambda tensors: tensors.update({"transformer.h.0.adapter": torch.zeros(2)}))
    refused("wider", "model.safetensors: wpe.weight must be [10, 8] per config.json, got [9, 8]", n_positions=10)
    printed = printed_by(gpt2_import.main, os.path.join(files, "none"), os.path.join(files, "x"))
    expect_refused(files, "x", printed, "none/config.json: ")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as files:
        expect_same_logits(files)
        expect_errors(files)
    print("imported models give the logits of Transformers")
