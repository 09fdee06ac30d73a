// The live view of quality of service. The kernel sends what has changed: pieces of words and numbers, and points of
// lines as binary numbers. A page says that it is ready and gets all that is known; what a page has missed it asks for.
import { Chart, palette, spark } from "./qosview/charts.js";
import { rate, seconds, share } from "./qosview/format.js";
import { Line } from "./qosview/lines.js";
import { build } from "./qosview/page.js";
import { COLOURS, GLYPHS, Picture } from "./qosview/picture.js";
import "./qosview.css";

const ALIVE = 5000; // milliseconds between two signs of life to the kernel
const SAY = 5000; // between two summaries for those who listen
const SPANS = [
  [30, "30 s"],
  [120, "2 min"],
  [600, "10 min"],
  [Infinity, "All"],
];
const LEAST = 5; // seconds that the charts show, at least
const LIMITS = 4; // of several sinks that are drawn in one chart
const SPARK = 120; // seconds of a peer's load
let copies = 0;

const slackOf = (part) => `slack:${part.application}/${part.operator}`;

class View {
  constructor({ model, el, signal, early = [] }) {
    this.model = model;
    this.copy = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}-${++copies}`;
    this.pieces = new Map();
    this.lines = new Map();
    this.number = 0;
    this.ready = false;
    this.span = 120;
    this.paused = null; // or the time at which the charts stand still
    this.stale = true; // something is to be drawn
    this.worded = true; // and not only lines
    this.frame = 0;
    this.frames = 0;
    this.page = build(el, SPANS, {
      span: (span) => this.choose(span),
      pause: () => this.pause(),
    });
    this.colours = palette(this.page.root);
    const chart = (options) => new Chart(this.page.charts, { colours: this.colours, sync: this.copy, ...options });
    this.charts = {
      delay: chart({
        name: "delay",
        title: "Delay",
        about: "from the entry of what completed a result to its arrival at the sink; logarithmic",
        log: true,
        height: 196,
        say: seconds,
      }),
      rate: chart({
        name: "rate",
        title: "Throughput",
        about: "results a second, over two seconds",
        log: false,
        height: 132,
        floor: 1,
        say: rate,
      }),
      miss: chart({
        name: "miss",
        title: "Miss rate",
        about: "share of the results that came later than the limit",
        log: false,
        height: 132,
        floor: 0.01,
        ceiling: 1.02,
        say: share,
      }),
      slack: chart({
        name: "slack",
        title: "Slack",
        about: "time that a tuple at each operator has left until its limit, less its predicted time there; below 0 it will be late",
        log: false,
        signed: true,
        height: 132,
        floor: 0.001,
        say: seconds,
      }),
    };
    this.picture = new Picture(this.page.picture);
    this.hear = (content, buffers) => this.take(content, buffers ?? []);
    model.on("msg:custom", this.hear);
    this.observe(signal);
    this.ask();
    for (const message of early) this.hear(...message);
    this.draw();
  }

  // -- the kernel ----------------------------------------------------------------------------------------------------

  send(kind) {
    try {
      this.model.send({ kind, copy: this.copy });
    } catch {
      // there is no kernel any more: what is drawn stays
    }
  }

  ask() {
    this.ready = false;
    this.send("ready");
  }

  take(content, buffers) {
    if (content.kind !== "update" || (content.to && content.to !== this.copy)) return;
    if (content.whole) {
      if (this.ready && content.number <= this.number) return;
      this.pieces.clear();
      this.lines.clear();
      this.ready = true;
    } else if (!this.ready || content.number <= this.number) return;
    else if (content.number !== this.number + 1) return this.ask();
    this.number = content.number;
    this.worded ||= Boolean(content.whole || content.gone?.length || Object.keys(content.set ?? {}).length);
    for (const name of content.gone ?? []) this.pieces.delete(name);
    for (const [name, piece] of Object.entries(content.set ?? {})) this.pieces.set(name, piece);
    if (content.lines?.length) this.extend(content.lines, buffers[0]);
    this.stale = true;
    this.draw();
  }

  extend(parts, buffer) {
    const bytes = buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength); // aligned
    const numbers = new Float64Array(bytes);
    let at = 0;
    for (const [quantity, of, count, whole] of parts) {
      const key = `${quantity}:${of}`;
      if (!this.lines.has(key)) this.lines.set(key, new Line());
      const line = this.lines.get(key);
      if (whole) line.clear();
      line.append(numbers.subarray(at, at + count), numbers.subarray(at + count, at + 2 * count));
      at += 2 * count;
    }
  }

  // -- what is around ------------------------------------------------------------------------------------------------

  observe(signal) {
    const { root } = this.page;
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(root);
    const theme = () => {
      this.colours.forget();
      this.redraw(true);
    };
    this.themes = new MutationObserver(theme);
    for (const element of [document.documentElement, document.body])
      this.themes.observe(element, {
        attributes: true,
        attributeFilter: ["class", "theme", "data-theme", "data-jp-theme-name", "data-jp-theme-light"],
      });
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", theme);
    this.theme = theme;
    this.wake = () => {
      if (document.hidden) return;
      this.redraw();
      if (this.slept()) this.ask();
    };
    document.addEventListener("visibilitychange", this.wake);
    this.beat = Date.now();
    this.alive = setInterval(() => {
      const slept = this.slept();
      this.beat = Date.now();
      if (!document.hidden) this.send(slept ? "ready" : "here");
    }, ALIVE);
    this.summary = setTimeout(() => this.say(), SAY / 5);
    this.leaving = () => this.send("gone");
    addEventListener("pagehide", this.leaving);
    signal?.addEventListener("abort", () => this.close());
  }

  // Whether the kernel may have given this page up: timers of hidden pages rest.
  slept() {
    return Date.now() - this.beat > 3 * ALIVE;
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    this.send("gone");
    this.model.off("msg:custom", this.hear);
    this.sizes.disconnect();
    this.themes.disconnect();
    this.dark.removeEventListener("change", this.theme);
    document.removeEventListener("visibilitychange", this.wake);
    removeEventListener("pagehide", this.leaving);
    clearInterval(this.alive);
    clearTimeout(this.summary);
    cancelAnimationFrame(this.frame);
    for (const chart of Object.values(this.charts)) chart.destroy();
  }

  // -- what people do ------------------------------------------------------------------------------------------------

  choose(span) {
    this.span = span;
    this.page.chosen(span);
    this.redraw();
  }

  pause() {
    this.paused = this.paused === null ? this.until(this.pieces.get("head")) : null;
    this.page.pausing(this.paused !== null);
    this.redraw();
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  redraw(anew = false) {
    this.stale = this.worded = true;
    if (anew) for (const chart of Object.values(this.charts)) chart.destroy();
    this.draw();
  }

  draw() {
    if (this.frame || this.closed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.stale || this.closed) return;
      this.stale = false;
      this.frames++;
      this.render();
    });
  }

  latest() {
    let latest = -Infinity;
    for (const line of this.lines.values()) latest = Math.max(latest, line.last);
    return latest;
  }

  // The right edge of the charts: now, or when the application ended.
  until(head) {
    if (this.paused !== null) return this.paused;
    if (!head?.ended) return this.latest();
    let until = head.ended;
    for (const [key, line] of this.lines) if (key.startsWith("rate:")) until = Math.max(until, line.last);
    return until;
  }

  // Where the data of these sinks start: what was before them, as on a cluster that is old, is no part of the charts.
  earliest(flows) {
    return Math.min(...flows.map((flow) => this.lines.get(`rate:${flow.of}`).first));
  }

  // Pieces of one sort, by what they are of.
  sort(kind) {
    const found = new Map();
    for (const [name, piece] of this.pieces)
      if (name.startsWith(`${kind}:`)) found.set(name.slice(kind.length + 1), piece);
    return found;
  }

  render() {
    const { page } = this;
    const head = this.pieces.get("head");
    page.root.classList.toggle("empty", !head);
    if (!head) return;
    const flows = [...this.sort("flow").values()];
    const until = this.until(head);
    if (this.worded) {
      page.head(head);
      page.flows(flows, head.kind);
      page.happened(this.pieces.get("marks")?.list ?? [], this.pieces.get("troubles")?.list ?? []);
    }
    this.drawCharts(flows, head, until);
    if (this.worded) this.drawPlaces(this.paused ?? this.latest());
    this.worded = false;
  }

  drawPlaces(until) {
    const { page } = this;
    const peers = [...this.sort("peer").values()].sort((a, b) => a.rank - b.rank);
    const parts = this.sort("part");
    const plan = this.pieces.get("plan");
    page.where(plan, peers.length > 0);
    page.slacks([...parts.values()].filter((part) => part.slack));
    if (plan) {
      const ranks = new Map(peers.map((peer) => [peer.of, peer.rank]));
      this.picture.show(plan, page.room());
      page.beside(this.picture.way);
      this.picture.state(new Map([...parts.values()].map((part) => [part.operator, part])), ranks);
    }
    this.drawLoads(page.peers(peers, plan ? [] : [...parts.values()], Boolean(plan)), Boolean(plan), until);
  }

  // Small lines of load, all on one scale.
  drawLoads(rows, coloured, until) {
    const to = Number.isFinite(until) ? until : 1;
    const from = to - SPARK;
    const loads = rows.map(({ of }) => this.lines.get(`load:${of}`));
    let high = 0.05;
    for (const line of loads)
      for (let place = line?.place(from) ?? 0; place < (line?.size ?? 0); place++)
        if (line.values[place] > high) high = line.values[place];
    rows.forEach(({ canvas, of, rank }, index) => {
      const lines = [
        { line: this.lines.get(`promised:${of}`), colour: "soft", dash: [2, 3] },
        { line: loads[index], colour: coloured ? `peer-${rank % COLOURS}` : "plain" },
      ];
      spark(canvas, lines, from, to, this.colours, high * 1.1);
    });
  }

  drawCharts(flows, head, until) {
    const known = flows.filter((flow) => this.lines.has(`rate:${flow.of}`));
    this.page.charting(known.length > 0);
    if (!known.length) return;
    const within = known.filter((flow) => this.lines.get(`rate:${flow.of}`).last >= until - this.span);
    const shown = within.length ? within : known;
    let from = Math.max(until - this.span, this.earliest(shown));
    if (until - from < LEAST) from = until - LEAST;
    const key = shown.map((flow) => [flow.of, flow.label, JSON.stringify(flow.limits)].join()).join(";");
    const one = shown.length === 1 ? shown[0] : null;
    const of = (quantity) =>
      shown.map((flow) => ({
        key: `${quantity}:${flow.of}`,
        label: flow.label,
        colour: one ? "p50" : `peer-${flows.indexOf(flow) % COLOURS}`,
        width: 1.75,
      }));
    // Of one sink its limit; of several each limit that there is, where these are few enough to be told apart.
    const limit = (quantity, shows, words, broken, above) => {
      const of = new Map();
      for (const flow of shown)
        if (flow.limits[quantity] !== null) {
          const label = `${words(flow)}${broken(flow) ? `: ${broken(flow)}` : ""}`;
          of.set(`${flow.limits[quantity]} ${label}`, {
            value: flow.limits[quantity],
            label: one || !flow.label ? label : `${label} (${flow.label})`,
            above: above && Boolean(one),
            always: quantity !== "miss",
            of: one ? `${shows}:${flow.of}` : undefined,
          });
        }
      return of.size <= LIMITS ? [...of.values()] : [];
    };
    const { delay, miss } = this.charts;
    for (const chart of Object.values(this.charts)) chart.marks = this.pieces.get("marks")?.list ?? [];
    if (one)
      delay.set(
        [
          { key: `p50:${one.of}`, label: "p50", colour: "p50", width: 1.75 },
          { key: `p99:${one.of}`, label: "p99", colour: "p99", width: 1.75, below: true },
        ],
        limit("delay", "p99", (flow) => `limit ${flow.limit}`, (flow) => flow.broken, true),
        key,
      );
    else delay.set(of("p99"), limit("delay", "p99", (flow) => `limit ${flow.limit}`, (flow) => flow.broken, true), key);
    delay.title.textContent = one ? "Delay" : "Delay p99";
    this.charts.rate.set(of("rate"), limit("rate", "rate", (flow) => `asked ${flow.wanted}`, (flow) => flow.fast === false && "not kept", false), key);
    const limited = shown.some((flow) => flow.limits.delay !== null);
    miss.element.hidden = !limited;
    if (limited) miss.set(of("miss"), limit("miss", "miss", (flow) => `allowed ${flow.allowed}`, (flow) => flow.kept === false && "broken", true), key);
    this.drawSlack();
    for (const chart of Object.values(this.charts)) chart.quiet = !one;
    for (const chart of Object.values(this.charts))
      if (!chart.element.hidden) chart.draw(this.lines, from, until, head.zero, chart.canvas.clientWidth);
  }

  // A line of the slack of each operator; of many, those that had the least.
  drawSlack() {
    const { slack } = this.charts;
    const parts = [...this.sort("part").values()].filter((part) => this.lines.has(slackOf(part)));
    slack.element.hidden = !parts.length;
    if (!parts.length) return;
    const least = (part) => Math.min(...this.lines.get(slackOf(part)).values.slice(0, this.lines.get(slackOf(part)).size));
    const shown =
      parts.length <= COLOURS ? parts : [...parts].sort((one, other) => least(one) - least(other)).slice(0, COLOURS);
    const series = shown
      .sort((one, other) => (one.operator < other.operator ? -1 : 1))
      .map((part, index) => ({ key: slackOf(part), label: part.operator, colour: `peer-${index}`, width: 1.75 }));
    slack.set(series, [{ value: 0, label: "no slack", below: true, always: true }], series.map(({ key }) => key).join());
  }

  // One sentence for those who hear the view rather than see it, when there is something new to say.
  say() {
    this.summary = setTimeout(() => this.say(), SAY);
    const head = this.pieces.get("head");
    if (!head || document.hidden) return;
    const flows = [...this.sort("flow").values()].slice(0, 3);
    const numbers = flows.map(
      (flow) => `${flow.label ? `${flow.label}: ` : ""}delay p99 ${flow.p99}, ${flow.rate}, ${flow.miss} missed`,
    );
    this.page.say([`${head.title}: ${head.status}.`, head.sentence, ...numbers].join(" "));
  }
}

export { GLYPHS, Line, View };
export default {
  render(given) {
    const view = new View(given);
    given.el.synergyView = view; // for those who measure it
    return () => view.close();
  },
};
