// The charts of a trace: bars of ranges, which are brushed, and bars of keys, which are buttons.
import { make } from "../common/elements.js";

const TALL = 100; // of the drawing of bars
const LEAST = 1.6; // height of a bar of one row
const NEAR = 9; // pixels within which a pointer takes the edge of a brush
const LETTERS = 8; // of a label beside which others have room
const DAY = 11; // letters of a day in a time, with the space after it
const PAGE = 10; // bars that PageUp and PageDown move

function draw(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const number = (value) => value.toLocaleString("en");
const rows = (value) => `${number(value)} ${value === 1 ? "row" : "rows"}`;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// What all charts have: a heading, a button that clears, and the selected bars; null: all are.
class Chart {
  constructor(chart, { brush, hold }) {
    this.chart = chart;
    this.bars = chart.bars;
    this.send = brush;
    this.hold = hold;
    this.selected = null;
    this.element = make("section", `chart ${chart.kind}`, "", { "aria-label": chart.column });
    const head = make("div", "head");
    this.note = make("span", "note");
    this.button = make("button", "clear", "Clear", { type: "button", "aria-label": `Clear ${chart.column}` });
    this.button.addEventListener("click", () => this.change(null));
    head.append(make("h3", "", chart.column, { title: chart.column }), this.note, this.button);
    this.element.append(head);
  }

  // Selects bars in the page alone.
  select(bars) {
    this.mark(bars);
    this.paint();
  }

  // Draws new counts and selected bars.
  draw(counts, bars) {
    this.counts = counts;
    this.mark(bars);
    this.read();
    this.paint();
  }

  mark(bars) {
    const selected = bars?.length ? bars : null;
    if (this.marked && String(selected) === String(this.selected)) return;
    this.marked = true;
    this.selected = selected;
    this.button.hidden = !selected;
    this.show();
  }

  // Selects bars, and tells the kernel.
  change(bars) {
    this.select(bars);
    this.send(this.selected);
  }

  toggle(bar) {
    const bars = new Set(this.selected ?? []);
    if (!bars.delete(bar)) bars.add(bar);
    this.change([...bars].sort((one, other) => one - other));
  }

  has(bar) {
    return !this.selected || this.selected.includes(bar);
  }
}

export class RangeChart extends Chart {
  constructor(chart, tell) {
    super(chart, tell);
    this.surface = make("div", "surface", "", { tabindex: "0", role: "application", "aria-roledescription": "brush" });
    this.picture = draw("svg", { viewBox: `0 0 ${Math.max(this.bars, 1)} ${TALL}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    this.out = draw("path", { class: "out" });
    this.inside = draw("path", { class: "in" });
    this.picture.append(this.out, this.inside);
    this.brush = make("div", "brush");
    this.brush.append(make("i", "edge from"), make("i", "edge to"));
    this.brush.hidden = true;
    this.surface.append(this.picture, this.brush);
    this.scale = make("div", "scale", "", { "aria-hidden": "true" });
    this.label();
    this.none = make("button", "none", "", { type: "button" });
    this.none.addEventListener("click", () => this.toggle(this.bars));
    this.element.append(this.surface, this.scale, this.none);
    if (!this.bars) this.surface.replaceChildren(make("p", "empty", "No values."));
    else this.listen();
  }

  // Labels below the bars: the first and the last bound, and some between them.
  label() {
    const { kind, labels } = this.chart;
    const [first] = labels;
    const gaps = Math.min(kind !== "time" && labels.some((label) => label.length > LETTERS) ? 2 : 4, this.bars);
    for (let place = 0; place <= gaps && gaps; place++) {
      const at = Math.round((this.bars * place) / gaps);
      // of a time of the same day, the time alone
      const short = kind === "time" && place && labels[at].length > DAY && labels[at].slice(0, DAY) === first.slice(0, DAY);
      const mark = make("span", "", short ? labels[at].slice(DAY) : labels[at]);
      mark.style.left = `${(100 * at) / this.bars}%`;
      if (place === 0) mark.className = "first";
      if (place === gaps) mark.className = "last";
      else if (place % 2) mark.className = "spare";
      this.scale.append(mark);
    }
  }

  // The selected range, from its first bar to the one after its last; null: there is none.
  get range() {
    const ranged = (this.selected ?? []).filter((bar) => bar < this.bars);
    return ranged.length ? [ranged[0], ranged.at(-1) + 1] : null;
  }

  set range(range) {
    const missing = this.selected?.includes(this.bars) ? [this.bars] : [];
    const bars = range ? Array.from({ length: range[1] - range[0] }, (_, place) => range[0] + place) : [];
    this.change([...bars, ...missing]);
  }

  // -- by pointer and by keys ----------------------------------------------------------------------------------------

  listen() {
    const { surface } = this;
    let held = null;
    const place = (event) => {
      const box = surface.getBoundingClientRect();
      return { at: ((event.clientX - box.left) / box.width) * this.bars, near: (NEAR / box.width) * this.bars };
    };
    const bar = (at) => clamp(Math.floor(at), 0, this.bars - 1);
    surface.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const { at, near } = place(event);
      const range = this.range;
      held = { before: this.selected, from: bar(at), at, moved: false, fixed: bar(at), whole: null };
      if (range && Math.abs(at - range[0]) <= near) held.fixed = range[1] - 1;
      else if (range && Math.abs(at - range[1]) <= near) held.fixed = range[0];
      else if (range && at > range[0] && at < range[1]) held.whole = range;
      held.edge = held.fixed !== held.from;
      surface.setPointerCapture(event.pointerId);
      this.hold(true);
    });
    surface.addEventListener("pointermove", (event) => {
      const { at, near } = place(event);
      if (!held) return this.tell(bar(at));
      if (!held.moved && Math.abs(at - held.at) < near / 3) return;
      held.moved = true;
      const to = bar(at);
      let range = [Math.min(held.fixed, to), Math.max(held.fixed, to) + 1];
      if (held.whole) {
        const [first, last] = held.whole;
        const by = clamp(to - held.from, -first, this.bars - last);
        range = [first + by, last + by];
      }
      if (String(range) !== String(this.range)) this.range = range;
    });
    const end = (event, keep) => {
      if (!held) return;
      const { before, from, moved, whole, edge } = held;
      held = null;
      if (!keep) this.change(before);
      else if (!moved && whole) this.range = null;
      else if (!moved && !edge) this.range = [from, from + 1];
      this.hold(false);
    };
    surface.addEventListener("pointerup", (event) => end(event, true));
    surface.addEventListener("pointercancel", (event) => end(event, false));
    surface.addEventListener("pointerleave", () => held || this.tell());
    surface.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const range = this.range;
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: PAGE, PageUp: -PAGE, Home: -this.bars, End: this.bars }[event.key];
    if (["Escape", "Delete", "Backspace"].includes(event.key)) {
      if (range) this.range = null;
    } else if (by === undefined) return;
    else if (!range) this.range = by < 0 ? [this.bars - 1, this.bars] : [0, 1];
    else if (event.shiftKey) this.range = [range[0], clamp(range[1] + by, range[0] + 1, this.bars)];
    else {
      const step = clamp(by, -range[0], this.bars - range[1]);
      this.range = [range[0] + step, range[1] + step];
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // Says how many rows a bar has; of none, how many the tallest has.
  tell(bar = null) {
    this.told = bar;
    if (!this.counts) return;
    if (bar === null) this.note.textContent = this.bars ? `at most ${number(this.most)} a bar` : "";
    else this.note.textContent = `${this.chart.labels[bar]} to ${this.chart.labels[bar + 1]}: ${rows(this.counts[bar])}`;
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  show() {
    const { range } = this;
    this.brush.hidden = !range;
    if (range) {
      this.brush.style.left = `${(100 * range[0]) / this.bars}%`;
      this.brush.style.width = `${(100 * (range[1] - range[0])) / this.bars}%`;
    }
    const [from, to] = (range ?? []).map((at) => this.chart.labels[at]);
    const said = range ? `${from} to ${to} selected` : "all selected";
    this.surface.setAttribute("aria-label", `${this.chart.column}: ${said}. Arrow keys move, Shift and arrow keys resize, Escape clears.`);
    this.none.setAttribute("aria-pressed", String(Boolean(this.selected?.includes(this.bars))));
  }

  // Takes in new counts.
  read() {
    const { counts } = this;
    this.most = 1;
    for (let bar = 0; bar < this.bars; bar++) if (counts[bar] > this.most) this.most = counts[bar];
    const without = counts[this.bars];
    this.none.hidden = !without && !this.selected?.includes(this.bars);
    this.none.textContent = `${rows(without)} without ${this.chart.column}`;
    this.tell(this.told);
  }

  paint() {
    if (!this.counts) return;
    const { range } = this;
    const paths = { in: "", out: "" };
    for (let bar = 0; bar < this.bars; bar++) {
      const count = this.counts[bar];
      if (!count) continue;
      const shown = !this.selected || (range && bar >= range[0] && bar < range[1]);
      const height = Math.max((TALL * count) / this.most, LEAST);
      paths[shown ? "in" : "out"] += `M${bar + 0.04} ${TALL}v-${height.toFixed(2)}h.92V${TALL}z`;
    }
    this.inside.setAttribute("d", paths.in);
    this.out.setAttribute("d", paths.out);
  }
}

export class KeyChart extends Chart {
  constructor(chart, tell) {
    super(chart, tell);
    const list = make("div", "keys");
    this.lines = chart.labels.map((label, bar) => {
      const plain = bar < this.bars - 1;
      const button = make("button", plain ? "key" : "key other", "", { type: "button", title: label });
      const bars = make("span", "track");
      const extent = make("span", "extent");
      const count = make("span", "count");
      bars.append(extent);
      button.append(make("span", "label", label), bars, count);
      button.addEventListener("click", () => this.toggle(bar));
      list.append(button);
      return { button, extent, count };
    });
    list.addEventListener("keydown", (event) => this.press(event));
    this.element.append(list);
  }

  press(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && this.selected) this.change(null);
    else if (by === undefined) return;
    else {
      const shown = this.lines.map(({ button }) => button).filter((button) => !button.hidden);
      const root = this.element.getRootNode();
      shown[clamp(shown.indexOf(root.activeElement) + by, 0, shown.length - 1)]?.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  show() {
    this.lines.forEach(({ button }, bar) => {
      button.setAttribute("aria-pressed", String(Boolean(this.selected?.includes(bar))));
      button.classList.toggle("out", !this.has(bar));
    });
  }

  read() {}

  paint() {
    const { counts } = this;
    if (!counts) return;
    let most = 1;
    for (const count of counts) if (count > most) most = count;
    this.lines.forEach(({ button, extent, count }, bar) => {
      const special = bar === this.bars || (bar === this.bars - 1 && !this.chart.others);
      button.hidden = special && !counts[bar] && !this.selected?.includes(bar);
      extent.style.width = `${(100 * counts[bar]) / most}%`;
      extent.classList.toggle("some", counts[bar] > 0);
      count.textContent = number(counts[bar]);
    });
  }
}
