"""Draws the pictures of UN in docs/engine.md from runs of the engine's `un`:

    PYTHONPATH=build/emulate/python python3 book/pictures.py docs/pictures

Each SVG file also contains its numbers, so that a test can compare them with the engine's.
"""
import html
import io
import json
import re
import sys
from pathlib import Path

import foldgrad as fg
import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

M = 4
BLUE, ORANGE, GRAY, GREEN = "#1f4e79", "#c55a11", "#7f7f7f", "#548235"
HISTORIES = {"un-window": (15, 6, True, 11), "un-means": (40, 5, False, 20), "un-outlier": (40, 5, True, 20)}


def history(iterations, warmup, filtration, outlier):
    """Runs `un` on 8 channels. Returns a dictionary of lists with one entry per iteration, for the first channel.

    The size of the inputs varies between iterations. At iteration `outlier`, they are 5 times as large.
    """
    random = np.random.RandomState(4)
    draw = lambda low, high, *shape: low + (high - low) * (random.randint(0, 1 << 32, shape, np.uint32) / 2**32)
    un, entries = fg.Normalizer("un", 8, dtype="f64", window=M, warmup=warmup, filtration=filtration), []
    for t in range(1, iterations + 1):
        size = np.exp(draw(-0.25, 0.25)) * (5 if t == outlier else 1)
        x = size * (1 + 0.2 * np.arange(8)) * draw(-2, 2, 32, 8)
        q, windows, skips = (x[:, 0] ** 2).mean(), un.state["win_sq"].numpy().copy(), un.diagnostics()["skips"]
        with_q = windows[:, 0].copy()
        with_q[t % M] = q
        y = un(x, training=True).numpy()
        arithmetic, geometric = with_q.mean(), with_q.prod() ** (1 / M)
        entries.append({
            "q": q, "arithmetic": arithmetic, "geometric": geometric, "distance": arithmetic - geometric,
            "threshold": M * np.sqrt(windows).var(ddof=1), "var_hat": (x[0, 0] / y[0, 0]) ** 2 - 1e-5,
            "run_var": un.state["run_var"].numpy()[0], "window": un.state["win_sq"].numpy()[:, 0].tolist(),
            "skipped": un.diagnostics()["skips"] - skips, "averages": int(t >= warmup and t > M)})
    return {name: [entry[name] for entry in entries] for name in entries[0]}


def draw_window(h, figure):
    """Draws the window as a ring of four slots, one column per iteration."""
    figure.set_size_inches(8.6, 2.5)
    axes = figure.add_subplot(frame_on=False, xlim=(0, 15), ylim=(7.5, 0), xticks=np.arange(15) + 0.5, yticks=range(6))
    axes.set_xticklabels(range(1, 16))
    axes.set_yticks([0.5, 1.5, 2.5, 3.5, 4.7], [*(f"slot {k}" for k in range(M)), "var_hat"])
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    show = lambda x, y, v, color: axes.text(x + 0.5, y, f"{v:.2f}" if v < 10 else f"{v:.1f}", ha="center", va="center",
                                            color=color)
    for i, window in enumerate(h["window"]):
        for slot, value in enumerate(window):
            new = "#f4b183" if h["skipped"][i] else "#bdd7ee"
            axes.bar(i + 0.5, 0.9, 0.94, slot + 0.05, color=new if slot == (i + 1) % M else "#f3f3f3", edgecolor="#999")
            show(i, slot + 0.5, value, "#333")
        show(i, 4.7, h["var_hat"][i], BLUE if h["averages"][i] > h["skipped"][i] else ORANGE)
    axes.text(0, 5.8, "blue: q goes to slot t mod 4, and var_hat is the geometric mean of the column", color=BLUE)
    axes.text(0, 7.4, "orange: var_hat is q, during the warm-up (t < 6) and at the outlier (t = 11).\n"
                      "The outlier's slot gets run_var instead of q.", color=ORANGE)


def draw_curves(h, axes, curves, **limits):
    """Plots h[name], starting at iteration 5, for each entry of `curves`, {name: (label, color, width)}."""
    axes.set(xlabel="iteration t", yscale="log", **limits)
    for name, (label, color, width) in curves.items():
        axes.plot(range(5, 41), h[name][4:], label=label, color=color, linewidth=width)
    axes.legend()


def draw_q(h, axes):
    axes.scatter(range(5, 41), h["q"][4:], 12, [ORANGE if skipped else GRAY for skipped in h["skipped"][4:]])
    axes.annotate("q, skipped" if h["skipped"][19] else "q, the outlier", (20.5, h["q"][19]))


def draw_means(h, figure):
    figure.set_size_inches(8, 3)
    axes = figure.add_subplot()
    draw_curves(h, axes, {"arithmetic": ("AM", ORANGE, 1.5), "geometric": ("GM = var_hat", BLUE, 2.5)})
    draw_q(h, axes)


def draw_outlier(h, figure):
    figure.set_size_inches(8, 5)
    above, below = figure.subplots(2)
    curves = {"threshold": ("M V: threshold", GRAY, 1.5), "distance": ("AM - GM", ORANGE, 2)}
    draw_curves(h, above, curves, ylim=(5e-3, 50))
    draw_curves(h, below, {"var_hat": ("var_hat", BLUE, 2.5), "run_var": ("run_var", GREEN, 1.5)})
    draw_q(h, below)


def numbers_in(picture):
    """Returns the numbers in a picture, given the text of its SVG file."""
    return json.loads(html.unescape(re.search("<dc:description>(.*?)</dc:description>", picture, re.S)[1]))


def main(folder):
    for name, draw in zip(HISTORIES, (draw_window, draw_means, draw_outlier)):
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}):
            figure, h = Figure(layout="constrained"), history(*HISTORIES[name])
            draw(h, figure)
            picture = io.StringIO()
            figure.savefig(picture, format="svg", metadata={"Date": None, "Description": json.dumps(h)})
        Path(folder, name + ".svg").write_text(picture.getvalue().replace("\n", " ") + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
