"""SVG as text: elements with numbers of one decimal, and self-contained pictures."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["element", "label", "path", "picture", "themed"]


def element(tag: str, kind: str, *inside: str, **attributes: float | str) -> str:
    """Write an element with a class.

    ``tag``, ``kind``: name of the element, and its class; empty for no class; ``inside``: markup inside the element;
    ``attributes``: numbers, and texts without markup, by attribute name with ``_`` for ``-``.

    Examples
    --------
    >>> element("line", "grid", x1=0, x2=10.25)
    '<line class="grid" x1="0.0" x2="10.2"/>'
    """
    given = {"class": kind, **attributes} if kind else attributes
    attributes_text = "".join(
        f' {name.replace("_", "-")}="{value if isinstance(value, str) else f"{value:.1f}"}"'
        for name, value in given.items()
    )
    return f"<{tag}{attributes_text}>{''.join(inside)}</{tag}>" if inside else f"<{tag}{attributes_text}/>"


def label(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    """Write a line of text; by ``anchor``, its ``start``, ``middle`` or ``end`` is at ``x``."""
    return element("text", kind, escape(text), x=x, y=y, text_anchor=anchor)


def path(points: Iterable[tuple[float, float]]) -> str:
    """Write the points of a line for an attribute."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def picture(kind: str, title: str, size: tuple[float, float], parts: Iterable[str], *, style: str = "") -> str:
    """Write a whole SVG with a class, a title for screen readers, and an optional style."""
    width, height = (f"{extent:.0f}" for extent in size)
    extent = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    inside = [f"<style>{style}</style>" if style else "", *parts]
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria_label": escape(title), **extent}
    return element("svg", kind, "\n".join(filter(None, inside)), **attributes)


def themed(kind: str, light: str, dark: str) -> str:
    """Write the rules that set the colours of a picture for light and dark.

    A page that has a theme of its own, as JupyterLab, VS Code and marimo have, decides; elsewhere the system's setting
    does.

    ``kind``: class of the picture; ``light``, ``dark``: declarations of CSS; each that differs is in both.
    """
    of = f".{kind}"
    rules = (
        f"{of}{{{light}}}",
        f"@media (prefers-color-scheme:dark){{{of}{{{dark}}}}}",
        f'[data-jp-theme-light="true"] {of},.vscode-light {of},[data-theme="light"] {of}{{{light}}}',
        f'[data-jp-theme-light="false"] {of},.vscode-dark {of},[data-theme="dark"] {of}{{{dark}}}',
    )
    return "\n".join(rules)
