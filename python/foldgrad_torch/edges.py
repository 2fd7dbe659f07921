"""Finds the linear layers before and after each normalizer of a model."""
from __future__ import annotations

import fnmatch
import inspect
import re
from collections import Counter
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

import torch
import torch.fx
from torch import nn

from .copies import detached_copy

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
LINEAR = (nn.Linear, nn.MultiheadAttention, *CONVOLUTIONS)
TRANSPARENT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # at inference
# Modules that are not traced: they have no forward(), or edges_within() handles them.
OPAQUE = (nn.ModuleList, nn.ModuleDict, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder,
          nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
PARTS = ("query", "key", "value")  # "attention.query" is the part of nn.MultiheadAttention that reads queries


class Edges(NamedTuple):
    """The neighbours of normalizers, by the normalizers' names."""
    readers: dict[str, list[str] | str]  # the layers that read the normalizer, or why it cannot be folded into them
    writers: dict[str, str]  # the layer before the normalizer, if nothing else reads that layer


def find_edges(root: nn.Module, norms: Mapping[str, nn.Module], readers: Mapping[str, str | Sequence[str]],
               writers: Mapping[str, str]) -> Edges:
    """Collects the edges from three sources: the types of PyTorch's modules, the graph of root(x), and `readers` and
    `writers`. Where these sources disagree, the later source wins."""
    edges = Edges({}, {})
    for name, module in root.named_modules():
        within = edges_within(module, name + "." if name else "", norms)
        edges.readers.update(within.readers)
        edges.writers.update(within.writers)
    for part in traced(root, "", norms):
        edges.writers.update(part.writers)
        edges.readers.update({name: layers for name, layers in part.readers.items()
                              if not (isinstance(layers, str) and isinstance(edges.readers.get(name), str))})
    edges.readers.update(given(root, norms, readers, "readers"))
    edges.writers.update({norm: layers[0] for norm, layers in given(root, norms, writers, "writers")})
    return edges


def edges_within(module: nn.Module, prefix: str, norms: Mapping[str, nn.Module]) -> Edges:
    """Returns the edges within a module that follow from its type, if it is one of PyTorch's modules."""
    edges = Edges({}, {})
    if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        decoder = isinstance(module, nn.TransformerDecoderLayer)
        kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
        why = (f"a subclass of nn.{kind.__name__} may use it differently" if type(module) is not kind else
               "" if module.norm_first else "post-norm: the residual sum reads it too")
        layers = ["self_attn", "multihead_attn.query", "linear1"] if decoder else ["self_attn", "linear1"]
        edges.readers.update({f"{prefix}norm{i}": why or [prefix + layer] for i, layer in enumerate(layers, 1)})
    elif type(module) is nn.Transformer and of_pytorch(module):
        edges.readers[f"{prefix}encoder.norm"] = [f"{prefix}decoder.layers.{i}.multihead_attn.{part}"
                                                  for i in range(len(module.decoder.layers)) for part in PARTS[1:]]
        edges.readers[f"{prefix}decoder.norm"] = "a layer outside of nn.Transformer reads its result; name this layer"
    elif type(module).forward is nn.Sequential.forward:
        waiting, last = None, None
        for key, part in module._modules.items():  # unlike named_children(), lists a repeated module each time
            if isinstance(part, TRANSPARENT):
                continue
            name = prefix + key
            if waiting:
                edges.readers[waiting] = [name]
            waiting = name + output_norm(part) if name + output_norm(part) in norms else None
            if waiting == name and type(module._modules.get(last)) in LINEAR:
                edges.writers[name] = prefix + last
            last = key
        if waiting:
            edges.readers[waiting] = "it is the last module of an nn.Sequential"
    return edges


def of_pytorch(transformer: nn.Transformer) -> bool:
    return (type(transformer.encoder) is nn.TransformerEncoder and type(transformer.decoder) is nn.TransformerDecoder
            and all(type(layer) is nn.TransformerDecoderLayer for layer in transformer.decoder.layers))


def output_norm(module: nn.Module) -> str:
    """Returns the name suffix of the submodule that computes the module's output, or "" for the module itself."""
    return {nn.TransformerEncoder: ".norm", nn.TransformerDecoder: ".norm",
            nn.Transformer: ".decoder.norm"}.get(type(module), "")


class Tracer(torch.fx.Tracer):
    """Traces into all modules except normalizers and PyTorch's own modules."""

    def __init__(self, norms: Mapping[str, nn.Module]):
        super().__init__()
        self.leaves = {id(norm) for norm in norms.values()}

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return id(module) in self.leaves or super().is_leaf_module(module, name)


def traced(module: nn.Module, prefix: str, norms: Mapping[str, nn.Module]) -> Iterator[Edges]:
    """Yields the edges in the graph of module(x), with defaults for the other arguments. If torch.fx cannot trace
    the module, for example because control flow depends on values, yields the edges in the graphs of its children."""
    inside = {name.removeprefix(prefix): norm for name, norm in norms.items() if name.startswith(prefix)}
    if not inside or module in norms.values():
        return
    try:
        if isinstance(module, OPAQUE):
            raise TypeError(type(module))
        # We trace a copy that shares the parameters, since forward() may store traced values in the module.
        copied = detached_copy(module, (*module.parameters(), *module.buffers()))
        defaults = {p.name: p.default for p in inspect.signature(copied.forward).parameters.values()
                    if p.default is not inspect.Parameter.empty}
        tracer = Tracer({name: copied.get_submodule(name) for name in inside})
        graph = tracer.trace(copied, concrete_args=defaults)
    except Exception:  # third-party code may raise anything
        for name, child in module.named_children():
            yield from traced(child, f"{prefix}{name}.", norms)
    else:
        yield edges_of(graph, copied, prefix, norms)


def edges_of(graph: torch.fx.Graph, module: nn.Module, prefix: str, norms: Mapping[str, nn.Module]) -> Edges:
    """Returns the edges of the modules that the graph calls exactly once."""
    modules, edges = dict(module.named_modules(remove_duplicate=False)), Edges({}, {})
    calls = Counter(id(modules[node.target]) for node in graph.nodes if node.op == "call_module")

    def called(node) -> nn.Module | None:
        found = modules[node.target] if isinstance(node, torch.fx.Node) and node.op == "call_module" else None
        return found if found and (calls[id(found)] == 1 or isinstance(found, TRANSPARENT)) else None

    for node in graph.nodes:
        part = called(node)
        name = f"{prefix}{node.target}{output_norm(part)}"
        if part is None or name not in norms:
            continue
        read = [layer for user, value in uses(node, called) for layer in layers_read(user, value, called(user), prefix)]
        edges.readers[name] = next((layer for layer in read if " " in layer), read or "nothing reads it")
        before = node.args[0] if node.args else None
        while isinstance(called(before), TRANSPARENT) and len(before.users) == 1:
            before = before.args[0]
        if not output_norm(part) and type(called(before)) in LINEAR and len(before.users) == 1:
            edges.writers[name] = prefix + before.target
    return edges


def uses(node: torch.fx.Node, called: Callable) -> Iterator[tuple[torch.fx.Node, torch.fx.Node]]:
    """Yields each node that reads the result of `node`, directly or through dropout, and the value that it reads."""
    for user in node.users:
        if isinstance(called(user), TRANSPARENT):
            yield from uses(user, called)
        else:
            yield user, node


def layers_read(user: torch.fx.Node, value: torch.fx.Node, layer: nn.Module | None, prefix: str) -> list[str]:
    """Returns the name of the layer that `user` calls with `value`, or the names of some of its parts if it is an
    attention module. For other users, such as a sum or a layer that is called twice, returns a sentence that says why
    a fold is impossible."""
    given = dict(zip(PARTS, user.args)) | user.kwargs
    parts = [part for part in PARTS if given.get(part) is value]
    if layer is None or len(parts) != [*user.args, *user.kwargs.values()].count(value):
        what = {"output": "the output", "call_module": f"{prefix}{user.target}"}.get(
            user.op, getattr(user.target, "__name__", user.target))
        return [f"{what} reads it but is not a linear layer, has other inputs, or is called several times"]
    if isinstance(layer, nn.MultiheadAttention) and len(parts) < 3:
        return [f"{prefix}{user.target}.{part}" for part in parts]
    return [prefix + user.target]


def given(root: nn.Module, norms: Mapping[str, nn.Module], pairs: Mapping[str, str | Sequence[str]],
          what: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the edges that the user names. A key selects every normalizer whose name ends with the key; the layers are
    in the same block as the normalizer."""
    layers = [name + part for name, module in root.named_modules() if isinstance(module, LINEAR)
              for part in ("", *[f".{part}" for part in PARTS if isinstance(module, nn.MultiheadAttention)])]
    for key, names in pairs.items():
        pattern = re.compile(r"((?:.*\.)?)" + "(.*)".join(map(re.escape, key.split("*"))))
        found = [match for match in map(pattern.fullmatch, norms) if match]
        if not found:
            raise ValueError(f"fold: {what}: no normalizer has a name that ends with {key}; the normalizers are "
                             f"{', '.join(norms)}")
        for match in found:
            block, *stars = match.groups()
            for_this = []
            for layer in [names] if isinstance(names, str) else names:
                for star in stars:
                    layer = layer.replace("*", star, 1)
                there = fnmatch.filter(layers, block + layer) if "*" in layer else [block + layer]
                for name in there or [block + layer]:
                    if name not in layers and not exists(root, name):
                        raise ValueError(f"fold: {what}: the layer {name}, given for {match.group()}, does not exist. "
                                         "A key such as decoder.*.norm2 selects fewer normalizers")
                for_this += there
            yield match.group(), for_this


def exists(root: nn.Module, name: str) -> bool:
    try:
        root.get_submodule(name)
    except AttributeError:
        return False
    return True
