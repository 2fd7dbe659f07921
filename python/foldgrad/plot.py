"""Pictures of runs and normalizers, by matplotlib. Each function draws into `axes`, or into a new figure, and returns it.

    import foldgrad as fg, foldgrad.plot

    fg.plot.curves(fg.Run("runs/un"), fg.Run("runs/ln"))
"""
import typing

try:
    import matplotlib.pyplot as pyplot
    import numpy as np
except ImportError as error:
    raise ImportError("foldgrad.plot needs matplotlib: pip install foldgrad[plot]") from error

from foldgrad import _core
from foldgrad._training import Run

Axes = typing.Any


def _axes(axes: Axes, **labels: str) -> Axes:
    axes = axes if axes is not None else pyplot.figure().add_subplot()
    axes.set(**labels)
    return axes


def curves(*runs: Run, axes: Axes = None) -> Axes:
    """Draws the losses of training, and of validation as dots."""
    axes = _axes(axes, xlabel="update", ylabel="loss")
    for run in runs:
        line, = axes.plot(run.log["step"], run.log["loss"], label=run.path.name)
        if "loss" in run.validations:
            axes.plot(run.validations["step"], run.validations["loss"], "o", color=line.get_color())
    axes.legend()
    return axes


def skips(run: Run, axes: Axes = None) -> Axes:
    """Draws how many iterations each normalizer has skipped as outliers; empty if none can."""
    axes = _axes(axes, xlabel="update", ylabel="skipped iterations")
    counts: dict[str, list[tuple[int, int]]] = {}
    for event in run.events:
        if event["event"] == "layers":
            for site, values in event["normalizers"].items():
                if "skips" in values:
                    counts.setdefault(site, []).append((event["step"], values["skips"]))
    for site, points in counts.items():
        axes.plot(*zip(*points), label=site)
    if counts:
        axes.legend()
    return axes


def _rolled(values: typing.Any, window: int) -> typing.Any:
    """Returns [rows - window + 1, ..., window], the last `window` values of each row."""
    if not 1 <= window <= len(values):
        raise ValueError(f"the window must be in [1, {len(values)}], got {window}")
    return np.lib.stride_tricks.sliding_window_view(values, window, axis=0)


def traces(run: Run, site: str, channel: int = 0, phase: str = "begin", window: int = 4, axes: Axes = None) -> Axes:
    """Draws the mean square q of a channel, and the arithmetic and geometric mean of its last values."""
    recording = run.recordings[phase]
    update, q = recording["update"].numpy(), recording[site + ".q"].numpy()[:, channel].astype(float)
    axes = _axes(axes, xlabel="update", ylabel="mean square", yscale="log", title=f"{site}, channel {channel}")
    axes.plot(update, q, ".", color="gray", label="q")
    last = _rolled(q, window)
    axes.plot(update[window - 1:], last.mean(-1), label="arithmetic mean")
    axes.plot(update[window - 1:], np.exp(np.log(last).mean(-1)), label="geometric mean")
    axes.legend()
    return axes


def pnac(run: Run, phase: str = "begin", window: int = 32, axes: Axes = None) -> Axes:
    """Draws, for each site, the percentage of channels whose last q pass a test of normality with p > 0.05.

    The test is that of D'Agostino and Pearson. Compare with the gray line, normally distributed noise.
    """
    from scipy.stats import normaltest
    recording = run.recordings[phase]
    update = recording["update"].numpy()[window - 1:]
    axes = _axes(axes, xlabel="update", ylabel="channels, %", ylim=(0, 105))
    sites = {name.removesuffix(".q"): t.numpy() for name, t in recording.items() if name.endswith(".q")}
    noise = np.random.default_rng(1).normal(size=next(iter(sites.values())).shape)
    for site, q in {**sites, "noise": noise}.items():
        passed = np.nan_to_num(normaltest(_rolled(q.astype(float), window), axis=-1).pvalue) > 0.05
        axes.plot(update, 100 * passed.mean(-1), label=site, color="gray" if site == "noise" else None)
    axes.legend()
    return axes


def similarity(x: typing.Any, y: typing.Any) -> float:
    """Returns the linear CKA of features x [n, p] and y [n, q] of the same n rows (Kornblith et al. 2019).

    It is 1 for features that are equal up to rotation, scale and shift, and near 0 for unrelated ones if n is much
    larger than p and q.
    """
    x, y = (np.asarray(a, np.float64) - np.mean(a, 0, dtype=np.float64) for a in (x, y))
    return float(np.linalg.norm(x.T @ y) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def cka(a: _core.Model, b: _core.Model, inputs: dict[str, typing.Any], axes: Axes = None) -> Axes:
    """Draws the linear CKA between the layers of two models on the same inputs; a row of a layer is an example."""
    outputs = [{name: y.numpy() for name, y in model.layer_outputs(inputs).items() if len(y.shape) == 2}
               for model in (a, b)]
    values = [[similarity(x, y) if len(x) == len(y) else np.nan for y in outputs[1].values()]
              for x in outputs[0].values()]
    axes = _axes(axes, title="linear CKA")
    axes.figure.colorbar(axes.imshow(values, vmin=0, vmax=1, origin="lower"))
    for axis, layers in ((axes.yaxis, outputs[0]), (axes.xaxis, outputs[1])):
        axis.set_ticks(range(len(layers)), list(layers))
    axes.tick_params("x", rotation=90)
    return axes


def window(normalizer: _core.Normalizer, axes: Axes = None) -> Axes:
    """Draws the window of a normalizer, by channel: its mean squares, their arithmetic and geometric mean."""
    means = normalizer.diagnostics().get("window")
    if means is None:
        raise ValueError(f"{normalizer.name} has no window")
    axes = _axes(axes, xlabel="channel", ylabel="mean square", title=normalizer.site)
    axes.plot(normalizer.state["win_sq"].numpy().T, ".", color="gray")
    arithmetic, geometric = zip(*typing.cast(list[tuple[float, float]], means))
    axes.plot(arithmetic, label="arithmetic mean")
    axes.plot(geometric, label="geometric mean")
    axes.legend()
    return axes
