"""Reads and writes the files of a model directory, and turns models into command-line programs. Needs torch,
safetensors and numpy."""
import argparse
import json
import math
import os
import pickle
import sys

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file


def fail(message):
    sys.exit(f"error: {message}")


def load_metadata(path):
    """Returns the metadata of a safetensors file, {name: text}."""
    try:
        with safe_open(path, "pt") as file:
            return file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path}: is not a safetensors file: {error}") from None


def load_tensors(path):
    """Returns all tensors of a safetensors file, {name: tensor}."""
    metadata = load_metadata(path)
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    for key, other in metadata.items():  # tensors that share their storage are stored once
        if key.startswith("alias."):
            tensors[key[len("alias."):]] = tensors[other]
    return tensors


def save_tensors(path, tensors, metadata={}):
    """Writes `tensors`, {name: tensor}, and `metadata`, {name: text}."""
    save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path, {"format": "pt"} | metadata)


def load_pickled(path, trust):
    """Returns the contents of a file that torch.save wrote. Unless `trust` is true, the file may contain only tensors
    and plain data, no code."""
    try:
        return torch.load(path, map_location="cpu", weights_only=not trust)
    except (OSError, RuntimeError, EOFError) as e:
        fail(f"{path}: cannot be read: {str(e).splitlines()[0]}")
    except pickle.UnpicklingError as e:
        fail(f"{path}: {str(e).splitlines()[0]}\nIf you trust the author of the file, use --trust, which may run "
             "code in the file.")


def make_new_directory(path):
    """Creates a directory. Fails if it exists."""
    try:
        os.makedirs(path)
    except OSError as e:
        fail(f"{path}: cannot be created: {e.strerror}")


def save_model(directory, family, config, weights):
    """Writes the weights and `config` into a model directory. config.json is written last, since it makes the directory
    a model."""
    save_tensors(os.path.join(directory, "model.safetensors"), weights)
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump({"format": f"foldgrad {family}", "format_version": 1, **config}, file, indent=2)


def model_directory(path):
    """Returns `path` if it is a model directory. If `path` is a run, returns its best checkpoint, or the latest one if
    there is no best."""
    if os.path.exists(os.path.join(path, "config.json")):
        return path
    for pointer in ("BEST", "LATEST"):
        named = os.path.join(path, "checkpoints", pointer)
        if os.path.exists(named):
            with open(named) as file:
                return os.path.join(path, "checkpoints", file.read().strip())
    raise ValueError(f"{path}: neither a model (no config.json) nor a run (no checkpoints/BEST or LATEST)")


def load_config(directory, family="transformer"):
    """Returns the contents of config.json (docs/model_directory.md). Raises ValueError if the model is of another
    family."""
    with open(os.path.join(directory, "config.json")) as file:
        config = json.load(file)
    if config["format"] != f"foldgrad {family}" or config["format_version"] != 1:
        raise ValueError(f"{directory}/config.json: format must be foldgrad {family} 1, got {config['format']} "
                         f"{config['format_version']}")
    return config


def load_values(directory, model):
    """Returns the state_dict for `model`: the weights, and the running estimates of normalizers. Windows and counters
    are left out, since only training needs them."""
    tensors = load_tensors(os.path.join(directory, "model.safetensors"))
    state = os.path.join(directory, "norm_state.safetensors")
    if os.path.exists(state):
        known = model.state_dict()
        tensors |= {name: t for name, t in load_tensors(state).items() if name in known}
    return tensors


def run_program(description, load_model, results):
    """Runs a program with the arguments MODEL, INPUT and OUTPUT. load_model(path, dtype) must return the model, and
    results(model, input tensors) must return the output tensors."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    args = parser.parse_args()
    try:
        model = load_model(args.model, getattr(torch, args.dtype))
        with torch.no_grad():
            save_tensors(args.output, results(model, load_tensors(args.input)))
    except (NotImplementedError, OSError, ValueError) as error:
        fail(error)


def sinusoids(rows, width):
    """Returns the table [POS-1] of ops/positions/positions.h. A row has its sines, then its cosines; row 1, for
    padding, is 0."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000) / (half - 1)))
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * frequencies[None]
    table = torch.cat([angles.sin(), angles.cos(), torch.zeros(rows, width % 2, dtype=torch.float64)], 1)
    table[1] = 0
    return table
