"""Tests examples/fairseq_import.py: for imported checkpoints with fairseq's names and random weights, foldgrad must
compute the same logits as examples/pytorch_model.py."""
import argparse
import os
import tempfile

from setting import PROGRAM, call, expect, expect_near_greatest, expect_refused, logits_of, printed_by, require

require("numpy", "safetensors", "torch")
import torch  # noqa: E402
import fairseq_import  # noqa: E402
from model_files import sinusoids  # noqa: E402
from pytorch_model import Transformer  # noqa: E402

WIDTH, INNER, HEADS, SOURCE, TARGET, PAD = 16, 24, 4, 16, 24, 1
TOLERANCE = 1e-5  # relative to the largest logit: the error of a few thousand f32 roundings


def options_of(**changes):
    return argparse.Namespace(**{"arch": "transformer", "encoder_attention_heads": HEADS, "decoder_attention_heads":
                                 HEADS, "encoder_normalize_before": False, "decoder_normalize_before": False,
                                 "share_all_embeddings": False, "share_decoder_input_output_embed": False,
                                 "max_source_positions": 64, "max_target_positions": 64, **changes})


def weights_of(options):
    """Returns random weights of a Transformer with 2 + 2 layers, and the other tensors that fairseq saves."""
    torch.manual_seed(1)
    w, normal = {}, lambda *shape: 0.3 * torch.randn(shape)

    def linear(name, out, into):
        w[f"{name}.weight"], w[f"{name}.bias"] = normal(out, into), normal(out)

    def norm(name):
        w[f"{name}.weight"], w[f"{name}.bias"] = 1 + normal(WIDTH), normal(WIDTH)

    w["encoder.version"], w["decoder.version"] = torch.tensor([3.0]), torch.tensor([3.0])
    w["encoder.embed_tokens.weight"] = normal(SOURCE, WIDTH)
    w["decoder.embed_tokens.weight"] = normal(TARGET, WIDTH)
    if options.share_all_embeddings:
        w["encoder.embed_tokens.weight"] = w["decoder.embed_tokens.weight"]
    shared = options.share_all_embeddings or options.share_decoder_input_output_embed
    w["decoder.output_projection.weight"] = w["decoder.embed_tokens.weight"] if shared else normal(TARGET, WIDTH)
    for stack in ("encoder", "decoder"):
        w[f"{stack}.embed_positions._float_tensor"] = torch.zeros(1)
        for i in range(2):
            layer = f"{stack}.layers.{i}"
            for attention in ("self_attn", "encoder_attn")[:1 + (stack == "decoder")]:
                for part in "q_proj k_proj v_proj out_proj".split():
                    linear(f"{layer}.{attention}.{part}", WIDTH, WIDTH)
                norm(f"{layer}.{attention}_layer_norm")
            linear(f"{layer}.fc1", INNER, WIDTH)
            linear(f"{layer}.fc2", WIDTH, INNER)
            norm(f"{layer}.final_layer_norm")
        if options.encoder_normalize_before:
            norm(f"{stack}.layer_norm")
    return w


def logits_by_pytorch(weights, options, source, target):
    """Returns the f64 logits of examples/pytorch_model.py, which uses fairseq's names. Its configuration is written
    here, not by the import under test."""
    model = {"source_vocabulary": len(weights["encoder.embed_tokens.weight"]), "target_vocabulary": TARGET,
             "width": WIDTH, "ffn_width": INNER, "heads": HEADS, "encoder_layers": 2, "decoder_layers": 2,
             "max_positions": 64, "pad": PAD, "pre_norm": options.encoder_normalize_before,
             "activation": getattr(options, "activation_fn", "relu"), "share_embeddings": "none"}
    network = Transformer({"model": model, "norm": {"name": "ln"}}).double()
    known = network.state_dict()
    network.load_state_dict({name: value for name, value in weights.items() if name in known})
    network.positions = sinusoids(66, WIDTH)
    with torch.no_grad():
        return network(source, target)[0]


def as_old(weights, options):
    """Returns the weights in the format of checkpoints before 2019."""
    old = dict(weights)
    for name in list(old):
        if ".q_proj." in name:
            parts = [old.pop(name.replace(".q_proj.", f".{p}_proj.")) for p in "qkv"]
            old[name.replace(".q_proj.", ".in_proj_")] = torch.cat(parts)
    output = old.pop("decoder.output_projection.weight")
    if not (options.share_all_embeddings or options.share_decoder_input_output_embed):
        old["decoder.embed_out"] = output
    return old


def convert(files, name, checkpoint, *more):
    path = os.path.join(files, f"{name}.pt")
    torch.save(checkpoint, path)
    return printed_by(fairseq_import.main, path, os.path.join(files, name), *more)


def check_logits(files, name, checkpoint, options, weights):
    print(convert(files, name, checkpoint).strip())
    source = torch.tensor([[4, 5, 6, 7, 2], [9, 8, 2, 1, 1]])
    target = torch.tensor([[2, 5, 6, 4], [2, 9, 11, 8]])
    want = logits_by_pytorch(weights, options, source, target)
    got = logits_of(os.path.join(files, name), source=source, input=target).double()
    expect_near_greatest(name, got, want, TOLERANCE)


def check_refusals(files):
    options = options_of()
    weights = weights_of(options)
    for name, checkpoint, message in (
            ("learned", {"args": options_of(encoder_learned_pos=True), "model": weights}, "encoder_learned_pos = True"),
            ("unknown", {"args": options, "model": {**weights, "encoder.layers.0.gate": torch.ones(1)}},
             "weights that foldgrad's Transformer does not have: ['encoder.layers.0.gate']; missing weights: none"),
            ("untied", {"args": options_of(share_decoder_input_output_embed=True), "model": weights},
             "decoder.output_projection.weight: differs from the embedding table"),
            ("plain", {"model": weights}, "has neither args nor cfg")):
        expect_refused(files, name, convert(files, name, checkpoint), message)


def check_vocabulary(files):
    """Checks that a model that was imported with dictionaries translates into words of the target dictionary."""
    options = options_of()
    for language, words in (("de", SOURCE - 4), ("en", TARGET - 4)):
        with open(os.path.join(files, f"dict.{language}.txt"), "w") as file:
            file.writelines(f"{language}{i} 1\n" for i in range(words))
    convert(files, "translates", {"args": options, "model": weights_of(options)}, "--source-dictionary",
            os.path.join(files, "dict.de.txt"), "--target-dictionary", os.path.join(files, "dict.en.txt"))
    translated = call(PROGRAM, "translate", os.path.join(files, "translates"), stdin="de1 de5\n").split()
    expect(translated and all(word.startswith("en") or word == "<unk>" for word in translated),
           f"a translation must consist of words of the target dictionary, got {translated}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as files:
        for name, changes in (("post-norm", {}), ("decoder-shared", {"share_decoder_input_output_embed": True}),
                              ("pre-norm", {"encoder_normalize_before": True, "decoder_normalize_before": True,
                                            "share_all_embeddings": True, "activation_fn": "gelu"})):
            options = options_of(**changes)
            weights = weights_of(options)
            check_logits(files, name, {"args": options, "model": weights}, options, weights)
            check_logits(files, name + "-old", {"args": options, "model": as_old(weights, options)}, options, weights)
        check_logits(files, "cfg", {"args": None, "cfg": {"model": vars(options)}, "model": weights}, options, weights)
        check_refusals(files)
        check_vocabulary(files)
