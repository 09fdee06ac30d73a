// Selection of operators by a rectangle: a drag on the empty canvas draws it, with Shift or while *Select* is on.

const DRAG_DISTANCE = 3; // pixels from which on a press is a drag

// Makes a canvas select by rectangles; it has the pane, the element of the rectangle, and the visible part of the picture.
export function marquee(canvas) {
  const { pane, props } = canvas;
  const { editor } = props;
  const wanted = (event) =>
    (event.shiftKey || editor.selecting) && !event.button && !event.target.closest?.("[data-node], [data-from], .synergy-flow__handle");
  const begin = (event) => {
    if (!wanted(event)) return;
    const start = [event.clientX, event.clientY];
    const kept = event.shiftKey ? new Set(editor.selected) : new Set();
    const before = new Set(editor.selected);
    let drawn = false;
    const move = (moved) => {
      drawn ||= Math.hypot(moved.clientX - start[0], moved.clientY - start[1]) > DRAG_DISTANCE;
      if (drawn) editor.selectWithin(kept, hits(canvas, start, [moved.clientX, moved.clientY]));
    };
    const end = (ended) => {
      for (const [type, listener] of listeners) removeEventListener(type, listener, true);
      canvas.rectangle.hidden = true;
      if (!drawn) return;
      if (ended.type !== "pointerup") return editor.selectWithin(before, []);
      canvas.selecting = true; // the click at the end of the drag selects nothing
      setTimeout(() => (canvas.selecting = false));
      editor.saySelection();
    };
    const key = (pressed) => {
      if (pressed.key !== "Escape") return;
      pressed.preventDefault();
      pressed.stopPropagation();
      end(pressed);
    };
    const listeners = [["pointermove", move], ["pointerup", end], ["pointercancel", end], ["keydown", key]];
    for (const [type, listener] of listeners) addEventListener(type, listener, true);
    canvas.svg.focus({ preventScroll: true });
  };
  // Otherwise the drag would move the canvas.
  const hold = (event) => {
    if (!wanted(event)) return;
    event.stopImmediatePropagation();
    event.preventDefault();
  };
  pane.addEventListener("pointerdown", begin, true);
  for (const type of ["mousedown", "touchstart"]) pane.addEventListener(type, hold, { capture: true, passive: false });
}

// Draws the rectangle between two points of the screen, and returns the operators in it.
function hits(canvas, one, other) {
  const box = canvas.pane.getBoundingClientRect();
  const within = (value, least, most) => Math.min(most, Math.max(least, value));
  const xs = [one[0], other[0]].map((x) => within(x, box.left, box.right)).sort((a, b) => a - b);
  const ys = [one[1], other[1]].map((y) => within(y, box.top, box.bottom)).sort((a, b) => a - b);
  const { rectangle } = canvas;
  rectangle.hidden = false;
  Object.assign(rectangle.style, { left: `${xs[0] - box.left}px`, top: `${ys[0] - box.top}px`, width: `${xs[1] - xs[0]}px`, height: `${ys[1] - ys[0]}px` });
  const [left, top] = canvas.at({ clientX: xs[0], clientY: ys[0] });
  const [right, bottom] = canvas.at({ clientX: xs[1], clientY: ys[1] });
  const { nodes } = canvas.props.scene.target;
  return [...nodes].filter(([, { x, y, width, height }]) => x < right && x + width > left && y < bottom && y + height > top).map(([id]) => id);
}
