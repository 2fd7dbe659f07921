"""The linear layers before and after each normalizer, by their names in a model."""
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
OPAQUE = (nn.ModuleList, nn.ModuleDict, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder,
          nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)  # there is nothing to trace, or edges_within() knows
PARTS = ("query", "key", "value")  # "attention.query" is the part of nn.MultiheadAttention that reads queries


class Edges(NamedTuple):
    """For each normalizer, the layers that read it, or why they are unknown; and the layer that only it reads."""
    readers: dict[str, list[str] | str]
    writers: dict[str, str]


def find_edges(root: nn.Module, norms: Mapping[str, nn.Module], readers: Mapping[str, str | Sequence[str]],
               writers: Mapping[str, str]) -> Edges:
    """Returns the edges in the modules of PyTorch, then those in the graph of root(x), then those given."""
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
    """Returns the certain edges in a module of PyTorch."""
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
        edges.readers[f"{prefix}decoder.norm"] = "what nn.Transformer returns is read by a layer outside of it: name it"
    elif type(module).forward is nn.Sequential.forward:
        waiting, last = None, None
        for key, part in module._modules.items():  # named_children() has a module that comes again only once
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
            edges.readers[waiting] = "it is the last of an nn.Sequential"
    return edges


def of_pytorch(transformer: nn.Transformer) -> bool:
    return (type(transformer.encoder) is nn.TransformerEncoder and type(transformer.decoder) is nn.TransformerDecoder
            and all(type(layer) is nn.TransformerDecoderLayer for layer in transformer.decoder.layers))


def output_norm(module: nn.Module) -> str:
    """Returns the part of the module that gives its output, if it is a normalizer: "" for the module itself."""
    return {nn.TransformerEncoder: ".norm", nn.TransformerDecoder: ".norm",
            nn.Transformer: ".decoder.norm"}.get(type(module), "")


class Tracer(torch.fx.Tracer):
    """Traces into modules, but not into normalizers and PyTorch's own."""

    def __init__(self, norms: Mapping[str, nn.Module]):
        super().__init__()
        self.leaves = {id(norm) for norm in norms.values()}

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return id(module) in self.leaves or super().is_leaf_module(module, name)


def traced(module: nn.Module, prefix: str, norms: Mapping[str, nn.Module]) -> Iterator[Edges]:
    """Yields the edges in the graph of module(x), with defaults for other arguments. If control flow depends on numbers
    there is no graph; then uses those of the children."""
    inside = {name.removeprefix(prefix): norm for name, norm in norms.items() if name.startswith(prefix)}
    if not inside or module in norms.values():
        return
    try:
        if isinstance(module, OPAQUE):
            raise TypeError(type(module))
        # forward() may keep its results: in a copy, which shares the parameters.
        copied = detached_copy(module, (*module.parameters(), *module.buffers()))
        defaults = {p.name: p.default for p in inspect.signature(copied.forward).parameters.values()
                    if p.default is not inspect.Parameter.empty}
        tracer = Tracer({name: copied.get_submodule(name) for name in inside})
        graph = tracer.trace(copied, concrete_args=defaults)
    except Exception:  # it is the code of others
        for name, child in module.named_children():
            yield from traced(child, f"{prefix}{name}.", norms)
    else:
        yield edges_of(graph, copied, prefix, norms)


def edges_of(graph: torch.fx.Graph, module: nn.Module, prefix: str, norms: Mapping[str, nn.Module]) -> Edges:
    """Returns the edges of modules that are called once."""
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
    """Yields the nodes that read a value and the value as they see it, after dropout."""
    for user in node.users:
        if isinstance(called(user), TRANSPARENT):
            yield from uses(user, called)
        else:
            yield user, node


def layers_read(user: torch.fx.Node, value: torch.fx.Node, layer: nn.Module | None, prefix: str) -> list[str]:
    """Returns the name of the layer that has the value as its input, or the names of its parts; or why it has none."""
    given = dict(zip(PARTS, user.args)) | user.kwargs
    parts = [part for part in PARTS if given.get(part) is value]
    if layer is None or len(parts) != [*user.args, *user.kwargs.values()].count(value):
        what = {"output": "the output", "call_module": f"{prefix}{user.target}"}.get(
            user.op, getattr(user.target, "__name__", user.target))
        return [f"{what} reads it, which is no linear layer, reads other things too or is called several times"]
    if isinstance(layer, nn.MultiheadAttention) and len(parts) < 3:
        return [f"{prefix}{user.target}.{part}" for part in parts]
    return [prefix + user.target]


def given(root: nn.Module, norms: Mapping[str, nn.Module], pairs: Mapping[str, str | Sequence[str]],
          what: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the edges that a user gives. A name means every normalizer whose name ends so, and layers of its block."""
    layers = [name + part for name, module in root.named_modules() if isinstance(module, LINEAR)
              for part in ("", *[f".{part}" for part in PARTS if isinstance(module, nn.MultiheadAttention)])]
    for key, names in pairs.items():
        pattern = re.compile(r"((?:.*\.)?)" + "(.*)".join(map(re.escape, key.split("*"))))
        found = [match for match in map(pattern.fullmatch, norms) if match]
        if not found:
            raise ValueError(f"fold: {what}: no normalizer that can be folded is named {key}; there are: "
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
                        raise ValueError(f"fold: {what}: {match.group()} is next to {name}, which does not exist. A "
                                         "name such as decoder.*.norm2 chooses fewer normalizers")
                for_this += there
            yield match.group(), for_this


def exists(root: nn.Module, name: str) -> bool:
    try:
        root.get_submodule(name)
    except AttributeError:
        return False
    return True
