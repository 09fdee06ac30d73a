// Places of operators and of the lines between them, from left to right: ranks by longest paths, order in a rank by
// barycentres with the fewest crossings, and heights by a least-squares fit that keeps order and distances, as in
// synergy_nb/drawing/_layout.py, but with ports: a line that can be straight is.

const SWEEPS = 12;
const ROW = 26; // least distance of two operators in a rank, pixels
const LINE = 14; // least distance of a line that passes a rank, pixels

// Ranks of the operators. Edges that close a cycle do not count: a plan with a cycle is invalid, but is drawn.
function ranked(ids, edges) {
  const after = new Map(ids.map((id) => [id, []]));
  for (const edge of edges) after.get(edge.from).push(edge);
  const state = new Map();
  const forward = new Set();
  const order = [];
  const visit = (id) => {
    state.set(id, 1);
    for (const edge of after.get(id)) {
      const met = state.get(edge.to);
      if (met === 1) continue;
      forward.add(edge);
      if (!met) visit(edge.to);
    }
    state.set(id, 2);
    order.push(id);
  };
  for (const id of ids) if (!state.has(id)) visit(id);
  const rank = new Map(ids.map((id) => [id, 0]));
  for (const id of order.reverse())
    for (const edge of after.get(id)) if (forward.has(edge)) rank.set(edge.to, Math.max(rank.get(edge.to), rank.get(id) + 1));
  const read = new Set(edges.map((edge) => edge.to));
  for (const id of ids) {
    const readers = after.get(id).filter((edge) => forward.has(edge));
    if (readers.length && !read.has(id)) rank.set(id, Math.min(...readers.map((edge) => rank.get(edge.to))) - 1);
  }
  return { rank, forward: edges.filter((edge) => forward.has(edge)) };
}

function crossings(rows, below) {
  let total = 0;
  for (let number = 0; number + 1 < rows.length; number++) {
    const place = new Map(rows[number + 1].map((each, index) => [each, index]));
    const ends = rows[number].map((each) => (below.get(each) ?? []).map(({ other, port }) => place.get(other) + port / 100));
    for (let first = 0; first < ends.length; first++)
      for (let second = first + 1; second < ends.length; second++)
        for (const one of ends[first]) for (const two of ends[second]) if (one > two) total++;
  }
  return total;
}

function ordered(rows, above, below) {
  let best = rows;
  let fewest = crossings(rows, below);
  const current = rows.map((row) => [...row]);
  for (let sweep = 0; sweep < SWEEPS && fewest; sweep++) {
    const down = sweep % 2 === 0;
    for (let step = 1; step < current.length; step++) {
      const index = down ? step : current.length - 1 - step;
      const fixed = new Map(current[down ? index - 1 : index + 1].map((each, number) => [each, number]));
      const old = new Map(current[index].map((each, number) => [each, number]));
      const centre = new Map(
        current[index].map((each) => {
          const known = ((down ? above : below).get(each) ?? []).filter(({ other }) => fixed.has(other));
          const sum = known.reduce((total, { other, port }) => total + fixed.get(other) + (down ? 0 : port / 100), 0);
          return [each, known.length ? sum / known.length : old.get(each)];
        }),
      );
      current[index].sort((one, other) => centre.get(one) - centre.get(other) || old.get(one) - old.get(other));
    }
    const count = crossings(current, below);
    if (count < fewest) [best, fewest] = [current.map((row) => [...row]), count];
  }
  return best;
}

// Values nearest to `wanted` with at least `offsets` between them: the pool of adjacent violators.
function fitted(row, wanted, gap) {
  const offsets = [0];
  for (let index = 1; index < row.length; index++) offsets.push(offsets[index - 1] + gap(row[index - 1], row[index]));
  const blocks = [];
  wanted.forEach((value, index) => {
    let [mean, count] = [value - offsets[index], 1];
    while (blocks.length && blocks.at(-1)[0] > mean) {
      const [other, number] = blocks.pop();
      [mean, count] = [(mean * count + other * number) / (count + number), count + number];
    }
    blocks.push([mean, count]);
  });
  const means = blocks.flatMap(([mean, count]) => Array(count).fill(mean));
  return means.map((mean, index) => mean + offsets[index]);
}

function heights(rows, above, below, size) {
  const gap = (one, other) => {
    const room = size(one) && size(other) ? ROW : LINE;
    return (size(one) + size(other)) / 2 + room;
  };
  const at = new Map();
  for (const row of rows) {
    let edge = 0;
    row.forEach((each, index) => {
      if (index) edge += gap(row[index - 1], each);
      at.set(each, edge);
    });
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (let step = 0; step < rows.length; step++) {
      const row = rows[down ? step : rows.length - 1 - step];
      const wanted = row.map((each) => {
        const first = (down ? above : below).get(each) ?? [];
        const near = first.length ? first : ((down ? below : above).get(each) ?? []);
        if (!near.length) return at.get(each);
        return near.reduce((sum, { other, shift }) => sum + at.get(other) + shift, 0) / near.length;
      });
      fitted(row, wanted, gap).forEach((value, index) => at.set(row[index], value));
    }
  }
  return at;
}

// The picture of `nodes`, each {id, width, height, ports: heights of its inputs' ports from its middle}, and of `edges`, each
// {from, to, port}. Returns {nodes: Map id -> {x, y, width, height, rank}, edges: Map key -> points, size: [width, height]};
// x and y are a node's upper left corner, and all nodes of a rank are equally wide.
export function layout(nodes, edges, { column = 56 } = {}) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const all = edges.filter(({ from, to }) => known.has(from) && known.has(to) && from !== to);
  const { rank, forward } = ranked([...known.keys()], all);
  const rows = Array.from({ length: Math.max(-1, ...rank.values()) + 1 }, () => []);
  for (const [id, number] of rank) rows[number].push(id);
  const above = new Map();
  const below = new Map();
  const chains = new Map();
  const join = (upper, lower, port, shift) => {
    if (!below.has(upper)) below.set(upper, []);
    if (!above.has(lower)) above.set(lower, []);
    below.get(upper).push({ other: lower, port, shift });
    above.get(lower).push({ other: upper, port, shift: -shift });
  };
  for (const edge of forward) {
    const chain = [edge.from];
    for (let number = rank.get(edge.from) + 1; number < rank.get(edge.to); number++) {
      const dummy = `${keyOf(edge)}\n${number}`;
      rows[number].push(dummy);
      chain.push(dummy);
    }
    chain.push(edge.to);
    chains.set(edge, chain);
    for (let index = 1; index < chain.length; index++) {
      const last = index === chain.length - 1;
      join(chain[index - 1], chain[index], last ? edge.port : 0, last ? (known.get(edge.to).ports[edge.port] ?? 0) : 0);
    }
  }
  const lines = ordered(rows, above, below);
  const at = heights(lines, above, below, (each) => known.get(each)?.height ?? 0);
  let least = Infinity;
  let most = -Infinity;
  for (const [each, middle] of at) {
    const half = (known.get(each)?.height ?? 0) / 2;
    least = Math.min(least, middle - half);
    most = Math.max(most, middle + half);
  }
  const placed = new Map();
  const columns = [];
  let x = 0;
  lines.forEach((row, number) => {
    const width = Math.max(0, ...row.map((each) => known.get(each)?.width ?? 0));
    columns.push([x, x + width]);
    for (const each of row)
      if (known.has(each)) {
        const { height } = known.get(each);
        placed.set(each, { x, y: Math.round(at.get(each) - height / 2 - least), width, height, rank: number });
      }
    x += width + column;
  });
  const middle = (id) => placed.get(id).y + placed.get(id).height / 2;
  const found = new Map();
  for (const edge of all) {
    const [start, end] = [placed.get(edge.from), placed.get(edge.to)];
    const points = [[start.x + start.width, middle(edge.from)]];
    for (const dummy of (chains.get(edge) ?? []).slice(1, -1)) {
      const [left, right] = columns[Number(dummy.slice(dummy.lastIndexOf("\n") + 1))];
      const y = Math.round(at.get(dummy) - least);
      points.push([left, y], [right, y]);
    }
    points.push([end.x, middle(edge.to) + (known.get(edge.to).ports[edge.port] ?? 0)]);
    found.set(keyOf(edge), points);
  }
  return { nodes: placed, edges: found, size: [Math.max(0, x - column), Math.max(0, most - least)] };
}

export const keyOf = ({ from, to, port }) => `${from}\n${to}\n${port}`;
