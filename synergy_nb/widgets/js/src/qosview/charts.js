// A chart of several lines over time: its heading, with the name and the latest value of each line, and a plot of uPlot.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { elapsed } from "./format.js";
import { sample } from "./lines.js";

const LEFT = 62; // pixels for the numbers of each chart; equal, so that the time axes of all charts are aligned
const RIGHT = 20;
const STEPS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200,
];
const LEAST_DRAG = 4; // pixels
const APART = 78; // pixels between two times on the axis, at least

// Present colours of the names in the style sheet, which follow the notebook's theme.
export function palette(root) {
  const probe = document.createElement("i");
  probe.style.display = "none";
  root.append(probe);
  const known = new Map();
  return {
    get(name) {
      if (!known.has(name)) {
        probe.style.color = `var(--${name})`;
        known.set(name, getComputedStyle(probe).color);
      }
      return known.get(name);
    },
    forget: () => known.clear(),
    font: () => getComputedStyle(root).fontFamily,
  };
}

const faded = (colour, share) =>
  colour.startsWith("rgb(")
    ? colour.replace(")", `, ${share})`).replace("rgb(", "rgba(")
    : `color-mix(in srgb, ${colour} ${share * 100}%, transparent)`;

function timeSplits(from, to, zero, width) {
  const step =
    STEPS.find((each) => ((to - from) / each) * APART <= width) ??
    STEPS.at(-1) * Math.ceil((to - from) / STEPS.at(-1) / 6);
  const found = [];
  for (let at = Math.ceil((from - zero) / step - 1e-9); zero + at * step <= to + 1e-9; at++)
    found.push(zero + at * step);
  return { step, found };
}

// Powers of ten; if there are few, also 2 and 5 times each.
function logSplits(low, high) {
  const decades = Math.log10(high / low);
  const within = decades < 1.3 ? [1, 2, 5] : decades < 2.2 ? [1, 3] : [1];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++)
    for (const each of within) {
      const at = each * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
    }
  return found.length > 1 ? found : [low, high];
}

function linearSplits(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil((low / step) * 0.9999); at * step <= high * 1.0001; at++) found.push(at * step);
  return found;
}

export class Chart {
  // `series`: [{ key, label, colour, width, dash }]; `format` makes a value a text; `limits()` gives [{ value, label, above }].
  // `signed`: values may be negative; of others the axis begins at 0.
  // `brush`: function that gets the two times between which somebody has dragged; without it a drag does nothing.
  constructor(parent, { name, title, about, log, signed, height, floor, ceiling = Infinity, format, colours, sync, brush }) {
    Object.assign(this, { name, format, log, signed, colours, floor, ceiling, sync, brush });
    this.brushed = null; // the two times
    this.height = height;
    this.series = [];
    this.limits = [];
    this.marks = [];
    this.window = [0, 1];
    this.zero = 0;
    this.element = document.createElement("figure");
    this.element.className = `chart ${name}`;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", title);
    const heading = document.createElement("figcaption");
    this.title = document.createElement("span");
    this.title.className = "name";
    this.title.textContent = title;
    this.title.title = about;
    this.legend = document.createElement("span");
    this.legend.className = "legend";
    heading.append(this.title, this.legend);
    this.canvas = document.createElement("div");
    this.canvas.className = "plot";
    this.element.append(heading, this.canvas);
    parent.append(this.element);
    this.plot = null;
  }

  // Set the lines; the plot is made again if they differ from those before.
  set(series, limits, key) {
    this.limits = limits;
    if (key === this.key) return;
    this.key = key;
    this.series = series;
    this.legend.replaceChildren(
      ...series.map((each) => {
        const item = document.createElement("span");
        item.className = "item";
        const mark = document.createElement("i");
        mark.style.borderTop = `${Math.max(each.width, 2)}px ${each.dash ? "dashed" : "solid"} var(--${each.colour})`;
        const label = document.createElement("span");
        label.textContent = each.label;
        mark.hidden = label.hidden = !each.label;
        each.value = document.createElement("b");
        item.append(mark, label, each.value);
        return item;
      }),
    );
    this.destroy();
  }

  destroy() {
    this.plot?.destroy();
    this.plot = null;
  }

  make(width) {
    const { colours } = this;
    const axis = {
      stroke: () => colours.get("soft"),
      font: `11px ${colours.font()}`,
      grid: { stroke: () => colours.get("rule"), width: 1 },
      ticks: { show: false },
    };
    this.plot = new uPlot(
      {
        width,
        height: this.height,
        padding: [8, RIGHT, 0, 0],
        legend: { show: false },
        cursor: {
          sync: { key: this.sync },
          drag: { x: Boolean(this.brush), y: false, setScale: false },
          y: false,
          points: { size: 6 },
        },
        select: { show: Boolean(this.brush) },
        scales: {
          x: { time: false, range: () => this.window },
          y: { distr: this.log ? 3 : 1, range: () => this.reach },
        },
        axes: [
          {
            ...axis,
            size: 26,
            gap: 7,
            splits: () => {
              const { step, found } = timeSplits(...this.window, this.zero, (this.plot?.width ?? width) - LEFT - RIGHT);
              this.step = step;
              return found;
            },
            values: (_, splits) => splits.map((at) => elapsed(at - this.zero, this.step)),
            grid: { show: false },
          },
          {
            ...axis,
            size: LEFT,
            gap: 6,
            splits: () =>
              this.log ? logSplits(...this.reach) : linearSplits(...this.reach, this.height > 150 ? 4 : 3),
            filter: (_, splits) => splits,
            values: (_, splits) => splits.map((at) => this.format(at, true)),
          },
        ],
        series: [
          {},
          ...this.series.map((each) => ({
            stroke: () => colours.get(each.colour),
            width: each.width,
            dash: each.dash,
            points: { size: 5, fill: () => colours.get(each.colour), space: 14 },
          })),
        ],
        hooks: {
          drawAxes: [(plot) => this.drawBrush(plot), (plot) => this.drawLimits(plot), (plot) => this.drawMarks(plot)],
          setCursor: [(plot) => this.point(plot)],
          setSelect: [(plot) => this.dragged(plot)],
        },
      },
      [[], ...this.series.map(() => [])],
      this.canvas,
    );
    this.dense = true; // as it has no band yet
    const root = this.plot.root;
    root.setAttribute("aria-hidden", "true"); // all that it shows is also said in words and numbers
  }

  // Draw what `lines` hold between two times.
  draw(lines, from, to, zero, width) {
    if (width < 40) return;
    this.window = [from, to];
    this.zero = zero;
    this.lines = this.series.map((each) => lines.get(each.key)).map((line) => line ?? EMPTY);
    const data = sample(this.lines, from, to, Math.max(width - LEFT - RIGHT, 1));
    let low = Infinity;
    let high = -Infinity;
    for (let series = 1; series < data.length; series++)
      for (const value of data[series]) {
        if (value === undefined || value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    for (const limit of this.limits)
      if (limit.always || high > limit.value) {
        high = Math.max(high, limit.value);
        if (this.log) low = Math.min(low, limit.value); // a limit is drawn however far below the values it is
      }
    const below = this.signed ? Math.min(low * 1.12, -this.floor) : 0;
    this.reach = this.log
      ? logReach(low, high)
      : [below || 0, Math.min(Math.max(high * 1.12, this.floor) || this.floor, this.ceiling)];
    if (!this.plot) this.make(width);
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.height });
    this.thicken(data[0].length > width * (this.dense ? 0.8 : 1)); // it does not go back and forth
    this.plot.setData(data);
    this.tell(to);
  }

  // With more points than pixels, thin lines and no area between two: that is easier to read, and to draw in time.
  thicken(dense) {
    if (dense === this.dense) return;
    this.dense = dense;
    this.series.forEach((each, index) => {
      this.plot.series[index + 1].width = dense ? 1 : each.width;
    });
    if (!this.series[1]?.below) return;
    if (dense) this.plot.delBand(0);
    else this.plot.addBand({ series: [2, 1], fill: () => faded(this.colours.get(this.series[1].colour), 0.1) });
  }

  dragged(plot) {
    const { left, width } = plot.select;
    if (!this.brush || width < LEAST_DRAG) return;
    const times = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false); // it moves on with the time axis: see drawBrush
    this.brush(...times);
  }

  // The time that is brushed.
  drawBrush(plot) {
    if (!this.brushed) return;
    const { ctx, bbox } = plot;
    const [from, to] = this.brushed.map((time) => Math.min(Math.max(plot.valToPos(time, "x", true), bbox.left), bbox.left + bbox.width));
    ctx.save();
    ctx.fillStyle = faded(this.colours.get("focus"), 0.16);
    ctx.fillRect(from, bbox.top, Math.max(to - from, 1), bbox.height);
    ctx.restore();
  }

  drawLimits(plot) {
    const { ctx, bbox } = plot;
    for (const limit of this.limits) {
      const at = plot.valToPos(limit.value, "y", true);
      if (!(at >= bbox.top - 1 && at <= bbox.top + bbox.height + 1)) continue;
      const ratio = uPlot.pxRatio;
      const colour = this.colours.get("bad");
      ctx.save();
      if (limit.above) {
        ctx.fillStyle = faded(colour, 0.06);
        ctx.fillRect(bbox.left, bbox.top, bbox.width, at - bbox.top);
      }
      if (limit.below) {
        ctx.fillStyle = faded(colour, 0.06);
        ctx.fillRect(bbox.left, at, bbox.width, Math.max(bbox.top + bbox.height - at, 0));
      }
      if (limit.of !== undefined) this.drawBroken(plot, limit, at, colour);
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.25 * ratio;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, at);
      ctx.lineTo(bbox.left + bbox.width, at);
      ctx.stroke();
      ctx.fillStyle = colour;
      ctx.font = `600 ${11 * ratio}px ${this.colours.font()}`;
      ctx.textBaseline = at - bbox.top > 18 * ratio ? "bottom" : "top";
      ctx.textAlign = "left";
      this.write(ctx, limit.label, bbox.left + 6 * ratio, at + (ctx.textBaseline === "top" ? 4 : -3) * ratio, ratio);
      ctx.restore();
    }
  }

  // What of a line is beyond its limit: the area between the two.
  drawBroken(plot, limit, at, colour) {
    const { ctx, bbox } = plot;
    const index = this.series.findIndex((each) => each.key === limit.of);
    if (index < 0) return;
    const [times, values] = [plot.data[0], plot.data[index + 1]];
    ctx.save();
    ctx.beginPath();
    if (limit.above) ctx.rect(bbox.left, bbox.top, bbox.width, Math.max(at - bbox.top, 0));
    else ctx.rect(bbox.left, at, bbox.width, Math.max(bbox.top + bbox.height - at, 0));
    ctx.clip();
    ctx.fillStyle = faded(colour, 0.3);
    ctx.beginPath();
    let last = null;
    const close = () => {
      if (last !== null) ctx.lineTo(last, at);
      last = null;
    };
    times.forEach((time, place) => {
      const value = values[place];
      if (value === null) close();
      if (value === undefined || value === null) return;
      const x = plot.valToPos(time, "x", true);
      if (last === null) ctx.moveTo(x, at);
      ctx.lineTo(x, plot.valToPos(value, "y", true));
      last = x;
    });
    close();
    ctx.fill();
    ctx.restore();
  }

  // What happened meanwhile: a line at its time, and two words where there is room.
  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = uPlot.pxRatio;
    let free = -Infinity;
    const written = []; // above all lines
    for (const mark of this.marks) {
      if (mark.at < this.window[0] || mark.at > this.window[1]) continue;
      const x = plot.valToPos(mark.at, "x", true);
      const colour = this.colours.get(mark.tone === "bad" ? "bad" : mark.tone === "good" ? "good" : "soft");
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colour;
      ctx.lineWidth = 1.25 * ratio;
      ctx.setLineDash([2 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.font = `600 ${11 * ratio}px ${this.colours.font()}`;
      const width = ctx.measureText(mark.label).width + 8 * ratio;
      const left = x + width > bbox.left + bbox.width ? x - width : x;
      if (this.height > 150 && mark.label && left > free) {
        written.push({ label: mark.label, left: left + 4 * ratio, colour });
        free = left + width;
      }
      ctx.restore();
    }
    ctx.save();
    ctx.font = `600 ${11 * ratio}px ${this.colours.font()}`;
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    for (const { label, left, colour } of written) {
      ctx.fillStyle = colour;
      this.write(ctx, label, left, bbox.top + bbox.height - 4 * ratio, ratio);
    }
    ctx.restore();
  }

  // A text with a rim in the colour of the page, so that lines do not go through it.
  write(ctx, words, x, y, ratio) {
    ctx.setLineDash([]);
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * ratio;
    ctx.strokeStyle = this.colours.get("page");
    ctx.strokeText(words, x, y);
    ctx.fillText(words, x, y);
  }

  // Values in the heading: under the pointer, or the last.
  point(plot) {
    const { left } = plot.cursor;
    this.tell(left >= 0 && plot.cursor.idx !== null ? plot.posToVal(left, "x") : this.window[1], left >= 0);
  }

  tell(time, pointed = false) {
    const reach = pointed ? Math.max((this.window[1] - this.window[0]) / 20, 6) : Infinity;
    const quiet = this.quiet && !pointed; // the last values of many are in the table above
    this.series.forEach((each, index) => {
      const value = this.lines ? this.lines[index].valueAt(time, reach) : NaN;
      each.value.textContent = quiet ? "" : this.format(value);
    });
  }
}

const EMPTY = { size: 0, place: () => 0, valueAt: () => NaN, times: [], values: [] };

function logReach(low, high) {
  if (!(high > 0)) return [1e-3, 1];
  low = Math.max(Math.min(low, high), 1e-6);
  const above = high * 1.35;
  const below = Math.min(low / 1.35, above / 10);
  return [below, above];
}

// A small line without axes, for a table.
export function spark(canvas, lines, from, to, colours, high) {
  const ratio = globalThis.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const [times, ...rows] = sample(
    lines.map(({ line }) => line ?? EMPTY),
    from,
    to,
    width,
  );
  context.strokeStyle = colours.get("rule");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, height - 0.5);
  context.lineTo(width, height - 0.5);
  context.stroke();
  lines.forEach(({ colour, dash }, index) => {
    context.strokeStyle = colours.get(colour);
    context.lineWidth = dash ? 1 : 1.5;
    context.setLineDash(dash ?? []);
    context.beginPath();
    let open = false;
    rows[index].forEach((value, row) => {
      if (value === null) open = false;
      if (value === undefined || value === null) return;
      const x = ((times[row] - from) / (to - from)) * width;
      const y = height - 1 - Math.min(value / high, 1) * (height - 3);
      if (open) context.lineTo(x, y);
      else context.moveTo(x, y);
      open = true;
    });
    context.stroke();
  });
  context.setLineDash([]);
}
