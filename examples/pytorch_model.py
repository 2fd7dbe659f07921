#!/usr/bin/env python3
"""foldgrad's Transformer for translation, written out in PyTorch.

    examples/pytorch_model.py MODEL IN.safetensors OUT.safetensors

computes the same results as `foldgrad run MODEL --input IN.safetensors --output OUT.safetensors`. MODEL is a model
directory or a run. If it is a run, its best checkpoint is used, or the latest one if there is no best. normalizers.py
has the normalizers. The computation is in torch.float32, or in float64 with --dtype float64.
"""
import torch
from torch import nn
from torch.nn import functional as F

from model_files import load_config, load_values, model_directory, run_program, sinusoids
from normalizers import make_norm, residual_sum

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus,
               "relu6": F.relu6, "exp": torch.exp}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, keys, sees):
        """Attends from x [B, T, C] to keys [B, S, C]. `sees` is a bool mask that broadcasts to [B, heads, T, S]."""
        split = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(keys)), split(self.v_proj(keys))
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        # A query that sees no key gets the result 0.
        p = torch.softmax(scores.masked_fill(~sees, float("-inf")), -1).nan_to_num(0.0)
        return self.out_proj((p @ v).transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    def __init__(self, config, name, decoder):
        super().__init__()
        m = config["model"]
        self.pre_norm, self.activation = m["pre_norm"], ACTIVATIONS[m["activation"]]
        self.self_attn = Attention(m["width"], m["heads"])
        self.self_attn_layer_norm = make_norm(config, f"{name}.self_attn_layer_norm")
        if decoder:
            self.encoder_attn = Attention(m["width"], m["heads"])
            self.encoder_attn_layer_norm = make_norm(config, f"{name}.encoder_attn_layer_norm")
        self.fc1, self.fc2 = nn.Linear(m["width"], m["ffn_width"]), nn.Linear(m["ffn_width"], m["width"])
        self.final_layer_norm = make_norm(config, f"{name}.final_layer_norm")

    def forward(self, x, sees, memory=None, sees_memory=None):
        x = residual_sum(x, self.self_attn_layer_norm, lambda y: self.self_attn(y, y, sees), self.pre_norm)
        if memory is not None:
            x = residual_sum(x, self.encoder_attn_layer_norm, lambda y: self.encoder_attn(y, memory, sees_memory),
                             self.pre_norm)
        return residual_sum(x, self.final_layer_norm, lambda y: self.fc2(self.activation(self.fc1(y))), self.pre_norm)


class Stack(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        m, decoder = config["model"], name == "decoder"
        vocabulary = m["target_vocabulary" if decoder else "source_vocabulary"]
        self.embed_tokens = nn.Embedding(vocabulary, m["width"])
        layers = m[f"{name}_layers"]
        self.layers = nn.ModuleList(Layer(config, f"{name}.layers.{i}", decoder) for i in range(layers))
        self.layer_norm = make_norm(config, f"{name}.layer_norm") if m["pre_norm"] else nn.Identity()

    def embed(self, ids, mask, positions):
        """Embeds ids. The first token of a sentence has position 2. Padding has position 1, whose row is 0."""
        x = self.embed_tokens(ids) * self.embed_tokens.weight.shape[1] ** 0.5
        places = torch.where(mask, mask.long().cumsum(1) + 1, 1)
        return x + positions[places]


class Transformer(nn.Module):
    """Parameters have the same names as in model.safetensors, and buffers as in norm_state.safetensors."""

    def __init__(self, config):
        super().__init__()
        m = self.config = config["model"]
        if any(site.endswith(".residual") for site in config["norm"].get("at", {})):
            raise NotImplementedError("this example does not support normalizers on a residual")
        self.encoder, self.decoder = Stack(config, "encoder"), Stack(config, "decoder")
        if m["share_embeddings"] in ("all", "inputs"):
            self.decoder.embed_tokens = self.encoder.embed_tokens
        own = m["share_embeddings"] in ("none", "inputs")
        bias = m.get("output_bias", False)
        self.decoder.output_projection = nn.Linear(m["width"], m["target_vocabulary"], bias=bias)
        if not own:
            self.decoder.output_projection.weight = self.decoder.embed_tokens.weight
        self.register_buffer("positions", sinusoids(m["max_positions"] + 2, m["width"]).float(), persistent=False)

    def encode(self, source, mask):
        x = self.encoder.embed(source, mask, self.positions) * mask[..., None]
        for layer in self.encoder.layers:
            x = layer(x, mask[:, None, None])
        return self.encoder.layer_norm(x)

    def forward(self, source, target_input, source_mask=None, input_mask=None):
        """Returns the logits [B, T, target_vocabulary] and the encoder's output."""
        source_mask = source != self.config["pad"] if source_mask is None else source_mask.bool()
        input_mask = target_input != self.config["pad"] if input_mask is None else input_mask.bool()
        memory = self.encode(source, source_mask)
        length = target_input.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        x = self.decoder.embed(target_input, input_mask, self.positions)
        for layer in self.decoder.layers:
            x = layer(x, causal & input_mask[:, None, None], memory, source_mask[:, None, None])
        return self.decoder.output_projection(self.decoder.layer_norm(x)), memory


def load_model(path, dtype=torch.float32):
    directory = model_directory(path)
    model = Transformer(load_config(directory)).to(dtype)
    tensors = load_values(directory, model)
    if model.config.get("fixnorm"):  # the model divides the rows of the tables by their norms
        for name in tensors:
            if name.endswith(("embed_tokens.weight", "output_projection.weight")):
                tensors[name] = nn.functional.normalize(tensors[name].to(dtype), dim=1, eps=1e-12)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    shared = {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}  # tied tables are stored once
    if set(missing) - shared or unexpected:
        raise ValueError(f"{directory}: missing tensors: {sorted(set(missing) - shared)}, unexpected: {unexpected}")
    model.positions = sinusoids(model.positions.shape[0], model.positions.shape[1]).to(dtype)
    return model.eval()


def results(model, given):
    logits, memory = model(given["source"].long(), given["input"].long(), given.get("source_mask"),
                           given.get("input_mask"))
    return {"logits": logits, "memory": memory}


if __name__ == "__main__":
    run_program(__doc__, load_model, results)
