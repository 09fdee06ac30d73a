// The live view of quality of service. The kernel sends what has changed: pieces of words and numbers, and points of
// lines as binary numbers. A page that is ready receives the whole state; a page that has
// missed a message requests it again.
import { Contact } from "./common/contact.js";
import { Chart, palette, spark } from "./qosview/charts.js";
import { elapsed, rate, seconds, share } from "./qosview/format.js";
import { Line } from "./qosview/lines.js";
import { build } from "./qosview/page.js";
import { colourOf, COLOURS } from "./common/peers.js";
import { GLYPHS, Picture } from "./qosview/picture.js";
import { Rows } from "./qosview/rows.js";
import "./qosview.css";

const SLEEP = 15000; // milliseconds without a question after which the kernel may count the page as closed
const ANNOUNCE = 5000; // milliseconds between two summaries for screen readers
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
    this.paused = null; // while paused: the right edge of the charts
    this.stale = true; // the page does not show all that was received
    this.textChanged = true; // texts have changed, and not only lines
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
        brush: model.get("_rows") ? (since, until) => this.brush(since, until) : undefined,
        log: true,
        height: 196,
        format: seconds,
      }),
      rate: chart({
        name: "rate",
        title: "Throughput",
        about: "results a second, over two seconds",
        log: false,
        height: 132,
        floor: 1,
        format: rate,
      }),
      miss: chart({
        name: "miss",
        title: "Miss rate",
        about: "share of the results that came later than the limit",
        log: false,
        height: 132,
        floor: 0.01,
        ceiling: 1.02,
        format: share,
      }),
      slack: chart({
        name: "slack",
        title: "Slack",
        about: "time that a tuple at each operator has left until its limit, less its predicted time there; below 0 it will be late",
        log: false,
        signed: true,
        height: 132,
        floor: 0.001,
        format: seconds,
      }),
    };
    const sink = model.get("_rows");
    const ask = (content) => this.tell({ ...content, copy: this.copy });
    this.rows = sink ? new Rows(this.page.newest, { sink, colours: this.colours, ask, back: () => this.unbrush() }) : null;
    if (this.rows) this.keys();
    this.picture = new Picture(this.page.picture);
    this.contact = new Contact(
      () => this.hail(),
      (words) => this.page.silence(this.pieces.get("head")?.ended ? "" : words), // of what has ended no news is expected
    );
    this.onMessage = (content, buffers) => this.receive(content, buffers ?? []);
    model.on("msg:custom", this.onMessage);
    this.observe(signal);
    this.requestState();
    for (const message of early) this.onMessage(...message);
    this.draw();
  }

  // -- the kernel ----------------------------------------------------------------------------------------------------

  send(kind) {
    this.tell({ kind, copy: this.copy });
  }

  tell(content) {
    try {
      this.model.send(content);
    } catch {
      // there is no kernel any more: what is drawn stays
    }
  }

  requestState() {
    this.ready = false;
    this.send("ready");
    if (this.rows?.turn) this.rows.ask(); // a kernel that counted this page as closed has forgotten what it looks at
  }

  // Tells the kernel that the page is open, which it answers; after a long sleep the page needs the whole state.
  hail() {
    const kind = this.slept() ? "ready" : "here";
    this.beat = Date.now();
    this.model.send({ kind, copy: this.copy });
    if (this.rows?.waits) this.rows.ask(); // what it has asked for may be lost
  }

  receive(content, buffers) {
    this.contact.news();
    if (content.kind === "here" && content.to === this.copy && this.ready && content.number > this.number) return this.requestState();
    if (content.kind === "rows") {
      if (!content.to || content.to === this.copy) this.takeRows(content);
      return;
    }
    if (content.kind !== "update" || (content.to && content.to !== this.copy)) return;
    if (content.whole) {
      if (this.ready && content.number <= this.number) return;
      this.pieces.clear();
      this.lines.clear();
      this.ready = true;
    } else if (!this.ready || content.number <= this.number) return;
    else if (content.number !== this.number + 1) return this.requestState();
    this.number = content.number;
    this.textChanged ||= Boolean(content.whole || content.gone?.length || Object.keys(content.set ?? {}).length);
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

  // -- size, theme and visibility of the page ------------------------------------------------------------------------------------------------

  observe(signal) {
    const { root } = this.page;
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(root);
    const theme = () => {
      this.colours.forget();
      this.redraw(true);
      this.rows?.present(this.rows.shown);
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
      if (this.slept()) this.requestState();
    };
    document.addEventListener("visibilitychange", this.wake);
    this.beat = Date.now();
    this.summary = setTimeout(() => this.announce(), ANNOUNCE / 5);
    this.leaving = () => this.send("gone");
    addEventListener("pagehide", this.leaving);
    signal?.addEventListener("abort", () => this.close());
  }

  // Whether the kernel may count this page as closed, since a browser stops the timers of hidden pages.
  slept() {
    return Date.now() - this.beat > SLEEP;
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    this.send("gone");
    this.model.off("msg:custom", this.onMessage);
    this.sizes.disconnect();
    this.themes.disconnect();
    this.dark.removeEventListener("change", this.theme);
    document.removeEventListener("visibilitychange", this.wake);
    removeEventListener("pagehide", this.leaving);
    this.contact.close();
    clearTimeout(this.summary);
    cancelAnimationFrame(this.frame);
    for (const chart of Object.values(this.charts)) chart.destroy();
    this.rows?.close();
  }

  // -- buttons ------------------------------------------------------------------------------------------------

  choose(span) {
    this.span = span;
    this.page.chosen(span);
    this.redraw();
  }

  pause() {
    this.paused = this.paused === null ? this.until(this.pieces.get("head")) : null;
    this.page.pausing(this.paused !== null);
    this.rows?.hold(this.paused !== null);
    this.redraw();
  }

  // -- a moment: rows and events of a time that is brushed in the chart of delays ---------------------------------------

  brush(since, until) {
    const { delay } = this.charts;
    delay.brushed = [since, until];
    this.redraw();
    this.rows.brush(since, until);
  }

  takeRows(content) {
    if (!content.moment) return this.rows?.take(content);
    const [since, until] = content.moment;
    const now = this.charts.delay.brushed;
    if (!now || now[0] !== since || now[1] !== until) return; // another one is asked for
    const zero = this.pieces.get("head")?.zero ?? 0;
    const marks = this.pieces.get("marks")?.list ?? [];
    const then = marks.filter(({ at }) => at >= since && at <= until);
    const step = until - since < 20 ? 0.1 : 1;
    this.rows.brushed(content, `${elapsed(since - zero, step)} to ${elapsed(until - zero, step)}`, then);
  }

  unbrush() {
    this.charts.delay.brushed = null;
    this.rows.leave();
    this.redraw();
  }

  // By keyboard: arrows move the brush or, with Shift, its end; Escape goes back.
  keys() {
    const { delay } = this.charts;
    delay.element.tabIndex = 0;
    delay.element.setAttribute("aria-description", "arrows choose a time whose rows are shown, with Shift its end; Escape shows the newest rows");
    delay.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return this.unbrush();
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way) return;
      event.preventDefault();
      const [from, to] = delay.window;
      const step = (to - from) / 40;
      const [since, until] = delay.brushed ?? [to - 2 * step, to - step];
      if (!delay.brushed) this.brush(since, until);
      else if (event.shiftKey) this.brush(since, Math.max(until + way * step, since + step));
      else this.brush(since + way * step, until + way * step);
    });
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  redraw(anew = false) {
    this.stale = this.textChanged = true;
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

  // Time of the first point of these sinks; the charts of a cluster begin there, and not with its first event.
  earliest(flows) {
    return Math.min(...flows.map((flow) => this.lines.get(`rate:${flow.id}`).first));
  }

  // Pieces of one kind, by id.
  piecesOf(kind) {
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
    const flows = [...this.piecesOf("flow").values()];
    const until = this.until(head);
    if (this.textChanged) {
      page.head(head);
      page.flows(flows, head.kind);
      page.happened(this.pieces.get("marks")?.list ?? [], this.pieces.get("troubles")?.list ?? []);
    }
    this.drawCharts(flows, head, until);
    if (this.textChanged) this.drawPlanAndPeers(this.paused ?? this.latest());
    this.textChanged = false;
  }

  drawPlanAndPeers(until) {
    const { page } = this;
    const peers = [...this.piecesOf("peer").values()].sort((a, b) => a.rank - b.rank);
    const parts = this.piecesOf("part");
    const plan = this.pieces.get("plan");
    page.where(plan, peers.length > 0);
    page.loads(this.pieces.get("loads"));
    page.slacks([...parts.values()].filter((part) => part.slack));
    if (plan) {
      const names = new Map(peers.map((peer) => [peer.id, peer.name]));
      this.picture.show(plan, page.room());
      page.beside(this.picture.direction);
      this.picture.state(new Map([...parts.values()].map((part) => [part.operator, part])), names, this.pieces.get("streams"));
    }
    this.drawLoads(page.peers(peers, plan ? [] : [...parts.values()], Boolean(plan)), Boolean(plan), until);
  }

  // Small lines of load, all on one scale.
  drawLoads(rows, coloured, until) {
    const to = Number.isFinite(until) ? until : 1;
    const from = to - SPARK;
    const loads = rows.map(({ id }) => this.lines.get(`load:${id}`));
    let high = 0.05;
    for (const line of loads)
      for (let place = line?.place(from) ?? 0; place < (line?.size ?? 0); place++)
        if (line.values[place] > high) high = line.values[place];
    rows.forEach(({ canvas, id, name }, index) => {
      const lines = [
        { line: this.lines.get(`promised:${id}`), colour: "soft", dash: [2, 3] },
        { line: loads[index], colour: coloured ? colourOf(name) : "plain" },
      ];
      spark(canvas, lines, from, to, this.colours, high * 1.1);
    });
  }

  drawCharts(flows, head, until) {
    const known = flows.filter((flow) => this.lines.has(`rate:${flow.id}`));
    this.page.charting(known.length > 0);
    if (!known.length) return;
    const within = known.filter((flow) => this.lines.get(`rate:${flow.id}`).last >= until - this.span);
    const shown = within.length ? within : known;
    let from = Math.max(until - this.span, this.earliest(shown));
    if (until - from < LEAST) from = until - LEAST;
    const key = shown.map((flow) => [flow.id, flow.label, JSON.stringify(flow.limits)].join()).join(";");
    const one = shown.length === 1 ? shown[0] : null;
    const of = (quantity) =>
      shown.map((flow) => ({
        key: `${quantity}:${flow.id}`,
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
            of: one ? `${shows}:${flow.id}` : undefined,
          });
        }
      return of.size <= LIMITS ? [...of.values()] : [];
    };
    const { delay, miss } = this.charts;
    for (const chart of Object.values(this.charts)) chart.marks = this.pieces.get("marks")?.list ?? [];
    if (one)
      delay.set(
        [
          // p50 lies on p99, which is wider: where tuples are few, both are the same value, and both are seen
          { key: `p99:${one.id}`, label: "p99", colour: "p99", width: 3.5, below: true },
          { key: `p50:${one.id}`, label: "p50", colour: "p50", width: 1.5 },
        ],
        limit("delay", "p99", (flow) => `limit ${flow.limit}`, (flow) => flow.broken, true),
        key,
      );
    else delay.set(of("p99"), limit("delay", "p99", (flow) => `limit ${flow.limit}`, (flow) => flow.broken, true), key);
    delay.title.textContent = one ? "Delay" : "Delay p99";
    this.charts.rate.set(of("rate"), limit("rate", "rate", (flow) => `at least ${flow.required_rate}`, (flow) => flow.rate_met === false && "missed", false), key);
    const limited = shown.some((flow) => flow.limits.delay !== null);
    miss.element.hidden = !limited;
    if (limited) miss.set(of("miss"), limit("miss", "miss", (flow) => `allowed ${flow.allowed_miss}`, (flow) => flow.miss_met === false && "broken", true), key);
    this.drawSlack();
    for (const chart of Object.values(this.charts)) chart.quiet = !one;
    for (const chart of Object.values(this.charts))
      if (!chart.element.hidden) chart.draw(this.lines, from, until, head.zero, chart.canvas.clientWidth);
  }

  // A line of the slack of each operator; of many, those that had the least.
  drawSlack() {
    const { slack } = this.charts;
    const parts = [...this.piecesOf("part").values()].filter((part) => this.lines.has(slackOf(part)));
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

  // The status in one sentence for screen readers, which read it aloud when it has changed.
  announce() {
    this.summary = setTimeout(() => this.announce(), ANNOUNCE);
    const head = this.pieces.get("head");
    if (!head || document.hidden) return;
    const flows = [...this.piecesOf("flow").values()].slice(0, 3);
    const numbers = flows.map(
      (flow) => `${flow.label ? `${flow.label}: ` : ""}delay p99 ${flow.p99}, ${flow.rate}, ${flow.miss} missed`,
    );
    this.page.announce([`${head.title}: ${head.status}.`, head.sentence, ...numbers].join(" "));
  }
}

export { GLYPHS, Line, View };
export default {
  render(context) {
    const view = new View(context);
    context.el.synergyView = view; // read by benchmarks and tests
    return () => view.close();
  },
};
