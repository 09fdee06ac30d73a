"""Whether the text of a view can be read: its contrast with what is behind it, as WCAG 2 computes it."""

from __future__ import annotations

from typing import Any, Final

from tests.browser import BarePage

__all__ = ["faint"]

#: Texts within a selector whose contrast is below 4.5, which the level AA requires, each with its class and contrast.
FAINT: Final = """selector => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const own = element.matches("g.problem-badge, g.tag, g.ghost") ? "circle, rect" : ".box, .shape";
      const box = element.matches("g") ? element.querySelector(`:scope > :is(${own})`) : null;
      const colour = parse(box ? getComputedStyle(box).fill : getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll(`${selector} *`)) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const unread = "title, style, option, .announcement, [hidden], :disabled";
    if (!own || element.closest(unread) || !element.getClientRects().length) continue;
    const styled = getComputedStyle(element);
    const drawn = element.matches("text, tspan") ? styled.fill : styled.color;
    const [one, other] = [light(parse(drawn)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push([element.textContent, element.className.baseVal ?? element.className, ratio]);
  }
  return found;
}"""


def faint(bare: BarePage, selector: str) -> list[Any]:
    """Texts within ``selector`` that are hard to read."""
    found: list[Any] = bare.page.evaluate(FAINT, selector)
    return found
