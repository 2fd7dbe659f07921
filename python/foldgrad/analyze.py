"""Prints tables about the recordings and logs of runs, and compares the layers of two runs (docs/analyses.md):

    python3 -m foldgrad.analyze pnac RUN...

The functions return the numbers in the tables. Where a table shows a mean, they return the values behind it.
"""
import argparse
import sys
import typing
import warnings

import numpy as np

from foldgrad import _core
from foldgrad._training import Run, run_command

Array = typing.Any
Curves = dict[str, dict[str, Array]]  # site -> name of the curve -> a number for each iteration
Table = tuple[str, list[str], list[list[typing.Any]]]  # title, head, rows


def _recorded(run: Run) -> tuple[list[str], dict[str, dict[str, Array]]]:
    """Returns the sites in the order of the forward pass, and each phase's arrays by name."""
    sites = _core.recorded_sites(str(run.path))
    return sites, {phase: {name: t.numpy() for name, t in tensors.items()} for phase, tensors in run.recordings.items()}


def rolled(values: Array, window: int, least: int = 1) -> Array:
    """Returns each window of `window` consecutive rows of `values`, as [rows - window + 1, ..., window]. Raises
    ValueError unless `window` is in [least, rows]."""
    if not least <= window <= len(values):
        raise ValueError(f"the window must be in [{least}, {len(values)}], where the upper limit is the number of "
                         f"recorded iterations, got {window}")
    return np.lib.stride_tricks.sliding_window_view(values, window, axis=0)


def normal(values: Array, window: int) -> Array:
    """Returns the percentage of channels of `values` [rows, channels] that pass D'Agostino and Pearson's normality test
    with p > 0.05, for each window of rows. Constant channels do not pass."""
    from scipy.stats import normaltest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns about constant channels
        p = normaltest(rolled(values.astype(float), window, 8), axis=-1).pvalue
    return 100 * (np.nan_to_num(p) > 0.05).mean(-1)


def pnac(run: Run, window: int = 32) -> Curves:
    """Returns normal() of q, of G and of normally distributed noise in each phase, as "q begin", "noise begin", ..."""
    sites, phases = _recorded(run)
    curves: Curves = {site: {} for site in sites}
    noise: dict[tuple[int, ...], Array] = {}
    for phase, recorded in phases.items():
        for site in sites:
            for name in ("q", "G"):
                if f"{site}.{name}" in recorded:
                    curves[site][f"{name} {phase}"] = normal(recorded[f"{site}.{name}"], window)
            shape = recorded[site + ".q"].shape
            if shape not in noise:
                noise[shape] = normal(np.random.default_rng(1).normal(size=shape), window)
            curves[site]["noise " + phase] = noise[shape]
    return curves


def gradient(run: Run) -> Curves:
    """Returns how well dx agrees with the exact gradient, in curves named "cosine begin", "norm ratio begin" and
    "lambda < 1 begin"."""
    sites, phases = _recorded(run)
    curves = {site: {f"{name} {phase}": recorded[site + ".dx"][:, k] for phase, recorded in phases.items()
                     for k, name in enumerate(("cosine", "norm ratio", "lambda < 1"))}
              for site in sites if all(site + ".dx" in recorded for recorded in phases.values())}
    if not curves:
        raise _core.FileError(f"{run.path}: has no gradients to compare: no site has SITE.dx, which is recorded only "
                              "for normalizers that use mean squares over positions, such as un with mode = \"paper\"")
    return curves


def means(values: Array, window: int) -> tuple[Array, Array]:
    """Returns the arithmetic and the geometric mean of each window in rolled(values, window)."""
    last = rolled(values, window)
    with np.errstate(divide="ignore", invalid="ignore"):
        return last.mean(-1), np.exp(np.log(last).mean(-1))


def outstanding(q: Array, window: int) -> list[int]:
    """Returns the channels of q [rows, channels] whose ratio of arithmetic to geometric mean, averaged over windows, is
    smallest and largest. Skips channels in which some q is 0, and returns [0] if there are no others."""
    arithmetic, geometric = means(q.astype(float), window)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (arithmetic / geometric).sum(0)
    if not np.isfinite(ratio).any():
        return [0]
    return list(dict.fromkeys((int(np.nanargmin(ratio)), int(np.where(np.isfinite(ratio), ratio, 0).argmax()))))


def _trace(run: Run, options: argparse.Namespace) -> typing.Iterator[Table]:
    sites, phases = _recorded(run)
    if options.site and options.site not in sites:
        raise ValueError(f"the site {options.site} is not recorded; the recorded sites are {', '.join(sites)}")
    last = len(sites) - 1
    for site in [options.site] if options.site else dict.fromkeys((sites[0], sites[last // 2], sites[last])):
        q = next(iter(phases.values()))[site + ".q"]
        if options.channel is not None and not 0 <= options.channel < q.shape[1]:
            raise ValueError(f"the channel of {site} must be in [0, {q.shape[1] - 1}], got {options.channel}")
        for channel in outstanding(q, options.window) if options.channel is None else [options.channel]:
            rows = []
            for name, phase in ((name, phase) for name in ("q", "G") for phase in phases):
                if f"{site}.{name}" in phases[phase]:
                    values = phases[phase][f"{site}.{name}"][:, channel].astype(float)
                    arithmetic, geometric = means(values, options.window)
                    positive = bool((geometric > 0).all())
                    rows.append([f"{name} {phase}", values.mean(), values.min(), values.max(), arithmetic.mean(),
                                 *((geometric.mean(), (arithmetic / geometric).max()) if positive else (np.nan,) * 2)])
            yield (f"{site}, channel {channel}, window {options.window}",
                   ["", "mean", "least", "greatest", "mean AM", "mean GM", "greatest AM/GM"], rows)


def outliers(normalizer: _core.Normalizer, q: Array) -> float:
    """Applies the outlier test of `un` to the rows of q [rows, channels] that follow the first full window, and returns
    the percentage of outliers. Every row enters the window unchanged, whereas in training, a skipped iteration
    stores another value. Returns NaN if the normalizer has no window, or if no row follows the first window."""
    options = {**normalizer.options, "filtration": "1", "warmup": "0"}
    size = int(options["window"]) if normalizer.name == "un" else 0
    if size < 2 or len(q) <= size or options["forward_average"] in ("none", "exponential"):
        return np.nan
    un = _core.Normalizer("un", q.shape[1], dtype="f64", **options)
    window, before = un.state["win_sq"].numpy(), 0
    for t, row in enumerate(q.astype(float), 1):
        if t == size + 1:
            before = un.diagnostics()["skips"]
        un(np.sqrt(row)[None], training=True)
        window[t % size] = row
    return float(100 * (un.diagnostics()["skips"] - before) / (len(q) - size))


def skips(run: Run) -> tuple[list[str], dict[str, list[float]]]:
    """Returns the column names, and the numbers for each site: the iterations skipped up to the last validation in each
    third of training, and the percentage skipped since the end of the warm-up. If the run has recordings, also returns
    the percentages of outliers in q, in q shuffled over time, and in normal noise with each channel's mean and standard
    deviation."""
    layers = [event for event in run.events if event["event"] == "layers"]
    if not layers:
        raise _core.FileError(f"{run.path}/log.jsonl: has no \"layers\" event, since no validation has run yet")
    thirds = [[e for e in layers if 3 * e["step"] <= third * layers[-1]["step"]] for third in (1, 2, 3)]
    chosen = list({events[-1]["step"]: events[-1] for events in thirds if events}.values())
    first = max(1, next(event["norm_warmup"] for event in run.events if event["event"] == "start"))
    names = [*(f"up to {event['step']}" for event in chosen), f"% from {first}"]
    found = {}
    for site, last in chosen[-1]["normalizers"].items():
        if "skips" in last:
            filtered = last["iterations"] - first + 1
            found[site] = [*(event["normalizers"].get(site, {}).get("skips", 0) for event in chosen),
                           100 * last["skips"] / filtered if filtered > 0 else 0]
    if not found:
        raise _core.FileError(f"{run.path}/log.jsonl: reports no skips, since the normalizers have no outlier test")
    if run.recordings:
        random, normalizers = np.random.default_rng(1), {n.site: n for n in run.model().normalizers}
        for phase, recorded in _recorded(run)[1].items():
            names += [f"% {values} {phase}" for values in ("recorded", "shuffled", "normal")]
            for site, numbers in found.items():
                q = recorded[site + ".q"].astype(float)
                noise = np.maximum(0, q.mean(0) + q.std(0, ddof=1) * random.normal(size=q.shape))
                numbers += [outliers(normalizers[site], values) for values in (q, random.permuted(q, axis=0), noise)]
    return names, found


def _grams(model: _core.Model, examples: _core.Examples, batch: list[int]) -> dict[str, Array]:
    """Returns each layer's Gram matrix [examples, examples], with zeros on the diagonal."""
    parts: dict[str, list[Array]] = {}
    for chosen in (batch[i:i + 32] for i in range(0, len(batch), 32)):  # bounds memory: a pass keeps all activations
        inputs = examples.inputs(chosen)
        for layer, y in model.layer_outputs(inputs).items():
            rows, lengths = y.to("f64").numpy(), examples.lengths(layer)
            if lengths:
                n = inputs[lengths].numpy()
                rows = np.add.reduceat(rows, np.cumsum(n) - n) / n[:, None]
            parts.setdefault(layer, []).append(rows.reshape(len(chosen), -1))
    grams = {}
    for layer, rows in parts.items():
        x = np.concatenate(rows)
        x -= x[0].copy()  # constant features become exact zeros
        x -= x.mean(0)
        grams[layer] = x @ x.T
        np.fill_diagonal(grams[layer], 0)
    return grams


def hsic1(K: Array, L: Array) -> Array:
    """Returns [A, B], the unbiased estimate of HSIC for each pair of Gram matrices in K [A, n, n] and L [B, n, n]."""
    n = K.shape[1]
    return (np.tensordot(K, L, ((1, 2), (1, 2))) + np.outer(K.sum((1, 2)), L.sum((1, 2))) / ((n - 1) * (n - 2))
            - 2 / (n - 2) * K.sum(1) @ L.sum(1).T) / (n * (n - 3))


def cka(a: Run, b: Run, examples: int = 2560, batch: int = 256, data_dir: str = "",
        dtype: str = "f32") -> tuple[list[str], list[str], Array]:
    """Returns the layer names of both models and the linear CKA of each pair of layers, [layers of a, layers of b]
    (Nguyen et al. 2021, "Do Wide and Deep Networks Learn the Same Things?", equations 2 to 4). CKA is NaN for a layer
    whose features do not vary.

    K = X X^T, L = Y Y^T for features X [n, p] and Y [n, q] of the same n examples, with the diagonals set to 0
    HSIC1(K, L) = [tr(K L) + (1'K 1)(1'L 1) / ((n-1)(n-2)) - 2/(n-2) 1'K L 1] / (n (n-3))
    CKA = mean HSIC1(K, L) / sqrt(mean HSIC1(K, K) mean HSIC1(L, L)), with means over minibatches of n = `batch`

    The examples are those on which the runs validate, in a fixed random order and in whole batches.
    """
    models = [_core.load(run.path, dtype) for run in (a, b)]
    data = [model.examples(str(run.path), data_dir) for run, model in zip((a, b), models)]
    most = min(examples, data[0].size)
    if not 4 <= batch <= most:
        raise ValueError(f"the batch must have 4 to {most} examples, got {batch}")
    order = np.random.default_rng(1).permutation(data[0].size)[:most // batch * batch].tolist()
    if data[0].size != data[1].size or data[0].digest(order) != data[1].digest(order):
        raise ValueError("cka compares models on the same examples, but "
                         f"{a.path} and {b.path} are validated on different data")
    sums: list[Array] = [0, 0, 0]
    for start in range(0, len(order), batch):
        grams = [_grams(m, d, order[start:start + batch]) for m, d in zip(models, data)]
        K, L = (np.stack(list(g.values())) for g in grams)
        sums = [s + more for s, more in zip(sums, (hsic1(K, L), hsic1(K, K).diagonal(), hsic1(L, L).diagonal()))]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = sums[0] / np.sqrt(np.outer(*(np.where(of > 0, of, np.nan) for of in sums[1:])))
    return list(grams[0]), list(grams[1]), values


def _curves(curves: Curves) -> tuple[list[str], list[list[typing.Any]]]:
    """Returns the header and the rows of a table of the curves' means over the iterations."""
    names = list(dict.fromkeys(name for of in curves.values() for name in of))
    def mean(v: Array | None) -> float:
        return float(v[~np.isnan(v)].mean()) if v is not None and not np.isnan(v).all() else np.nan
    return ["site", *names], [[site, *(mean(of.get(name)) for name in names)] for site, of in curves.items()]


def _tables(options: argparse.Namespace) -> typing.Iterator[Table]:
    runs = [Run(path) for path in options.runs]
    if options.analysis == "cka":
        a, b, values = cka(runs[0], runs[1], options.examples, options.batch, options.data_dir)
        rows = []
        for layer, row in zip(a, values):
            most = int(np.nan_to_num(row, nan=-np.inf).argmax())
            rows.append([layer, row[b.index(layer)] if layer in b else np.nan, b[most], row[most]])
        yield f"CKA of {runs[0].path} and {runs[1].path}", ["layer", "CKA", "most like it", "CKA"], rows
    for run in runs:
        if options.analysis == "pnac":
            yield f"{run.path}: PNAC in percent, window {options.window}", *_curves(pnac(run, options.window))
        elif options.analysis == "trace":
            yield from ((f"{run.path}: {title}", head, rows) for title, head, rows in _trace(run, options))
        elif options.analysis == "gradient":
            yield f"{run.path}: dx and the exact gradient", *_curves(gradient(run))
        elif options.analysis == "skips":
            names, found = skips(run)
            yield f"{run.path}: iterations skipped, by update", ["site", *names], [[s, *n] for s, n in found.items()]


def _aligned(title: str, head: list[str], rows: list[list[typing.Any]]) -> str:
    def text(v: object) -> str:
        return "-" if v != v else f"{v:#.4g}" if isinstance(v, float) else str(v)
    cells = [head, *([text(v) for v in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells)
    return "\n".join([title, *lines])


def main(words: list[str] | None = None) -> int:
    """Prints the tables of an analysis. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m foldgrad.analyze", description="Docs: docs/analyses.md")
    analyses = parser.add_subparsers(dest="analysis", required=True)
    for name, help in (("pnac", "percentage of channels whose recent statistics pass a normality test"),
                       ("trace", "statistics of single channels and their moving means"),
                       ("skips", "iterations skipped as outliers, compared with outliers in noise"),
                       ("gradient", "agreement of dx with the exact gradient"),
                       ("cka", "similarity of two runs' layers on their validation examples")):
        analysis = analyses.add_parser(name, help=help)
        analysis.add_argument("runs", nargs=2 if name == "cka" else "+", metavar="RUN")
        if name in ("pnac", "trace"):
            analysis.add_argument("--window", type=int, default={"pnac": 32, "trace": 4}[name],
                                  help="number of iterations in a window")
        if name == "trace":
            analysis.add_argument("--site", help="name of a normalizer (default: the first, middle and last)")
            analysis.add_argument("--channel", type=int, help="default: those with the least and greatest AM/GM")
        if name == "cka":
            analysis.add_argument("--examples", type=int, default=2560,
                                  help="number of examples, rounded down to whole batches")
            analysis.add_argument("--batch", type=int, default=256, help="number of examples in a minibatch")
            analysis.add_argument("--data-dir", default="", help="root directory for data.directory")
    given = parser.parse_args(words)
    return run_command(lambda: print(*(_aligned(*table) for table in _tables(given)), sep="\n\n"))


if __name__ == "__main__":
    sys.exit(main())
