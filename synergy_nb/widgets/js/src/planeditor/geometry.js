// Geometry of the canvas: paths of lines, the line nearest to the pointer, and places between two pictures.

const round = (value) => Math.round(value * 10) / 10;

// SVG path of a line through `points`; it is horizontal at each of them.
export function path(points) {
  let drawn = `M${round(points[0][0])},${round(points[0][1])}`;
  for (let index = 1; index < points.length; index++) {
    const [[x, y], [toX, toY]] = [points[index - 1], points[index]];
    if (y === toY && toX >= x) drawn += `H${round(toX)}`;
    else {
      const bend = toX >= x ? (toX - x) / 2 : Math.max(40, (x - toX) / 3);
      drawn += `C${round(x + bend)},${round(y)} ${round(toX - bend)},${round(toY)} ${round(toX)},${round(toY)}`;
    }
  }
  return drawn;
}

// Points along the line, for distances.
function* along(points) {
  for (let index = 1; index < points.length; index++) {
    const [[x, y], [toX, toY]] = [points[index - 1], points[index]];
    for (let step = 0; step <= 8; step++) {
      const share = step / 8;
      const eased = share * share * (3 - 2 * share);
      yield [x + (toX - x) * share, y + (toY - y) * eased];
    }
  }
}

// The line that is nearest to a point, at most `within` away; `lines` are pairs of a key and points.
export function nearestLine(lines, [x, y], within) {
  let best = null;
  let least = within;
  for (const [key, points] of lines)
    for (const [nearX, nearY] of along(points)) {
      const distance = Math.hypot(nearX - x, nearY - y);
      if (distance < least) [best, least] = [key, distance];
    }
  return best;
}

// The middle of the last stretch of a line between two ranks, where its label is.
export function labelPlace(points) {
  const [[x, y], [toX, toY]] = points.slice(-2);
  return [(x + toX) / 2, (y + toY) / 2];
}

// Places between two pictures; `share` is 0 at the first picture and 1 at the second.
export function between(before, after, share) {
  if (share >= 1 || !before) return after;
  const eased = 1 - (1 - share) ** 3;
  const mix = (one, other) => one + (other - one) * eased;
  const nodes = new Map();
  for (const [id, to] of after.nodes) {
    const from = before.nodes.get(id);
    nodes.set(id, from ? { ...to, x: mix(from.x, to.x), y: mix(from.y, to.y), width: mix(from.width, to.width) } : to);
  }
  const edges = new Map();
  for (const [key, points] of after.edges) {
    const from = before.edges.get(key);
    if (from?.length === points.length)
      edges.set(key, points.map(([x, y], index) => [mix(from[index][0], x), mix(from[index][1], y)]));
    else {
      const [start, end] = key.split("\n").map((id) => [nodes.get(id), after.nodes.get(id)]);
      const moved = (point, [now, later]) => (now && later ? [point[0] + now.x + now.width - later.x - later.width, point[1] + now.y - later.y] : point);
      edges.set(key, points.map((point, index) =>
        index === 0
          ? moved(point, start)
          : index === points.length - 1 && end[0]
            ? [point[0] + end[0].x - end[1].x, point[1] + end[0].y - end[1].y]
            : point));
    }
  }
  return { nodes, edges, size: after.size };
}
