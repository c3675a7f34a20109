"""The figures of docs/: bytes against supersteps, and the saver's time per superstep. Only they need matplotlib."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCS = Path(__file__).parent.parent / "docs"
INK, FAINT = "#24292f", "#d8dee4"
COLOURS = {
    "JsonlSaver": "#0969da",
    "SqliteSaver": "#cf222e",
    "PostgresSaver": "#8250df",
    "InMemorySaver": "#6e7781",
    "only written": "#bf8700",
}
DASHES = {"packed": (0, (4, 1.5)), '"always"': (0, (4, 1.5)), '"never"': (0, (1, 1.2))}
# The spans of a chat, from its tenth superstep on, of which the second figure shows medians.
FIRST, SPANS = 10, 14


def _plt() -> Any:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plt.rcParams.update(
        {
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": "#8c959f",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.axisbelow": True,
            "xtick.color": INK,
            "ytick.color": INK,
            "figure.facecolor": "white",
            "savefig.dpi": 160,
        }
    )
    return plt


def _line(axes: Any, name: str, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
    saver, _, kind = name.partition(", ")
    axes.plot(x, y, color=COLOURS[saver], linestyle=DASHES.get(kind, "solid"), linewidth=1.9, **style)


def _labels(axes: Any, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Each line's name at its end, moved apart where lines end close to each other."""
    low, high = map(math.log10, axes.get_ylim())
    points = axes.get_window_extent().height * 72 / axes.figure.dpi
    placed = -math.inf
    for name, (x, y, text) in sorted(ends.items(), key=lambda end: end[1][1]):
        placed = max(math.log10(y), placed + 14 * (high - low) / points)
        axes.annotate(
            text,
            (x, 10**placed),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            color=COLOURS[name.partition(",")[0]],
            annotation_clip=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )


def _ticks(axis: Any, marks: Mapping[float, str]) -> None:
    axis.set_ticks(list(marks), list(marks.values()))
    axis.set_ticks([], minor=True)


def growth(found: Mapping[str, Mapping[str, Mapping[int, int]]]) -> None:
    """Bytes on disk, for each kind of state."""
    plt = _plt()
    figure, panels = plt.subplots(2, 2, figsize=(10, 7.2), sharex=True, sharey=True)
    labels = []
    for axes, (kind, savers) in zip(panels.flat, found.items(), strict=True):
        ends = {}
        for name, sizes in savers.items():
            _line(axes, name, list(sizes), list(sizes.values()), marker="o", markersize=3.5)
            *_, (half, before), (last, size) = sizes.items()
            exponent = math.log(size / before) / math.log(last / half)
            ends[name] = last, size, f"{name}, n$^{{{exponent:.2f}}}$"
        axes.set_title(kind)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(color=FAINT, linewidth=0.7)
        _ticks(axes.xaxis, {50: "50", 200: "200", 800: "800", 3200: "3,200"})
        _ticks(axes.yaxis, {1e4: "10 KB", 1e5: "100 KB", 1e6: "1 MB", 1e7: "10 MB", 1e8: "100 MB", 1e9: "1 GB"})
        axes.tick_params(length=0)
        axes.set_ylim(1e4, 1e9)
        labels.append((axes, ends))
    for axes in panels[-1]:
        axes.set_xlabel("supersteps of 1 KB of new text")
    figure.suptitle("Bytes on disk of one thread", x=0.07, y=0.975, ha="left", size=13, weight="bold")
    figure.subplots_adjust(left=0.07, right=0.81, top=0.89, bottom=0.075, wspace=0.62, hspace=0.22)
    for axes, ends in labels:
        _labels(axes, ends)
    figure.savefig(DOCS / "growth.png")
    plt.close(figure)


def time(threads: Sequence[Mapping[str, Sequence[float]]]) -> None:
    """Milliseconds of each saver for each superstep: medians over spans of a chat that grow with it."""
    plt = _plt()
    figure, axes = plt.subplots(figsize=(10, 5.2))
    length = len(next(iter(threads[0].values())))
    edges = [round(FIRST * (length / FIRST) ** (number / SPANS)) for number in range(SPANS + 1)]
    ends = {}
    for name in threads[0]:
        spans = [[each for thread in threads for each in thread[name][a:b]] for a, b in itertools.pairwise(edges)]
        middles = [math.sqrt(a * b) for a, b in itertools.pairwise(edges)]
        medians = [1e3 * median(span) for span in spans]
        _line(axes, name, middles, medians, marker="o", markersize=3.5)
        ends[name] = middles[-1], medians[-1], name
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(color=FAINT, linewidth=0.7)
    _ticks(axes.xaxis, {mark: f"{mark:,}" for mark in (12, 25, 50, 100, 200, 400, 800)})
    _ticks(axes.yaxis, {mark: f"{mark:g}" for mark in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)})
    axes.set_xlim(edges[0], edges[-1])
    lowest, highest = (pick(y for line in axes.lines for y in line.get_ydata()) for pick in (min, max))
    axes.set_ylim(lowest / 1.3, highest * 1.3)
    axes.tick_params(length=0)
    axes.set_xlabel("supersteps of the chat so far (1 KB of new text each)")
    axes.set_title("The saver's own time per superstep, in ms", size=13, pad=12)
    figure.subplots_adjust(left=0.06, right=0.8, top=0.9, bottom=0.11)
    _labels(axes, ends)
    figure.savefig(DOCS / "time.png")
    plt.close(figure)
