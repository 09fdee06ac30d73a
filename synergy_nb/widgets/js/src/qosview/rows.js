// The newest rows of an application as a table: only the rows on the screen are elements, each head has a small chart,
// and a click on it sorts. Rows of a moment that was brushed are shown in their place until one goes back.
import { make, put } from "../common/elements.js";
import { columnsOf, sorting } from "./columns.js";

const ROW = 24; // height of a row, pixels
const AROUND = 6; // rows above and below those on the screen
const SHOWN = 13; // rows on the screen, at most
const MARKS = { 1: "up", 2: "down", 3: "other" };
const WIDTHS = { integer: 92, number: 104, time: 196, date: 96, clock: 118, span: 84 }; // pixels, at least
const LETTER = 7.4; // pixels
const WIDEST = 320; // pixels
const TURN = 8; // milliseconds of sorting, after which the page has its turn

export class Rows {
  // `colours`: palette of the view; `back`: called when one goes back from a moment to the newest rows.
  constructor(parent, { sink, colours, back }) {
    this.colours = colours;
    this.newest = this.shown = null; // what a message had
    this.number = 0; // of the last message
    this.buffers = []; // that it had
    this.held = false; // whether what is shown stays, while newer rows come
    this.names = "";
    this.widths = [];
    this.sort = null; // name of a column, and whether the largest come first
    this.order = null; // places of the rows as they are sorted; null: as they came
    this.pool = [];
    this.frame = this.timer = 0;
    this.next = null; // what is shown once it is sorted
    this.element = make("section", "rows-of", "", { "aria-label": `rows of ${sink}` });
    const head = make("div", "rows-head");
    this.title = make("h3", "", `Rows of ${sink}`);
    this.caption = make("span", "caption", "", { role: "status" });
    this.back = make("button", "back", "Back to the newest", { type: "button" });
    this.back.hidden = true;
    this.back.addEventListener("click", back);
    head.append(this.title, this.caption, this.back);
    this.note = make("p", "silence");
    this.note.hidden = true;
    this.then = make("ul", "then");
    this.then.hidden = true;
    this.grid = make("div", "table", "", { role: "table", tabindex: "0", "aria-label": `rows of ${sink}, newest` });
    this.heads = make("div", "heads", "", { role: "row" });
    this.body = make("div", "body", "", { role: "rowgroup" });
    this.grid.append(this.heads, this.body);
    this.element.append(head, this.note, this.then, this.grid);
    this.grid.hidden = true;
    parent.append(this.element);
    this.grid.addEventListener("scroll", () => this.draw());
  }

  close() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  // -- what came -----------------------------------------------------------------------------------------------------

  // Takes rows, with buffers that are as in the message before at the places that are `kept`; false if that one is missing.
  take(content, buffers) {
    const { kept = [], number } = content;
    if (kept.length && number !== this.number + 1) return false;
    const whole = [...buffers];
    for (const place of kept) whole.splice(place, 0, this.buffers[place]);
    this.number = number;
    this.buffers = whole;
    this.newest = { ...columnsOf(content, whole), caption: content.caption, note: content.note };
    if (!this.held && !this.moment) this.show(this.newest);
    return true;
  }

  // Show what came in a time, with what happened then; until `leave`.
  brushed(content, buffers, caption, happened) {
    const words = `${caption}: ${content.caption}`;
    this.moment = { ...columnsOf(content, buffers), caption: words, note: content.note };
    this.back.hidden = false;
    this.then.hidden = false;
    this.then.replaceChildren(
      ...(happened.length ? happened : [{ text: "nothing happened to the application then", tone: "" }]).map(({ text, tone }) =>
        make("li", tone, `${{ bad: "▲", good: "✓" }[tone] ?? "·"} ${text}`),
      ),
    );
    this.grid.scrollTop = 0;
    this.show(this.moment);
  }

  leave() {
    if (!this.moment) return;
    this.moment = null;
    this.back.hidden = this.then.hidden = true;
    this.show(this.newest ?? this.shown);
  }

  hold(held) {
    this.held = held;
    if (!held && !this.moment && this.newest) this.show(this.newest);
  }

  // Show rows once they are sorted; of several that come meanwhile, the last.
  show(rows) {
    this.next = rows;
    if (this.timer) return;
    const { columns, rows: number } = rows;
    const by = this.sort && columns.find(({ name }) => name === this.sort.name);
    const work = by ? sorting(by, number, this.sort.descending) : null;
    const go = () => {
      this.timer = 0;
      const until = performance.now() + TURN;
      let done = work?.next();
      while (done && !done.done && performance.now() < until) done = work.next();
      if (done && !done.done) {
        this.timer = setTimeout(go);
        return;
      }
      this.present(rows, done?.value ?? null);
      if (this.next !== rows) this.show(this.next);
    };
    go();
  }

  present(rows, order) {
    this.shown = rows;
    this.order = order;
    put(this.caption, rows.caption);
    put(this.note, rows.note && `▲ ${rows.note}`);
    this.note.hidden = !rows.note;
    this.grid.hidden = !rows.columns.length;
    this.fresh = true;
    this.draw();
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (this.shown) this.render();
    });
  }

  render() {
    const { columns, rows } = this.shown;
    if (this.fresh) {
      this.fresh = false;
      this.arrange(columns);
      this.grid.setAttribute("aria-rowcount", String(rows + 1));
      this.body.style.height = `${rows * ROW}px`;
      this.grid.style.setProperty("--height", `${Math.min(rows, SHOWN) * ROW}px`);
      for (const element of this.pool) element.row = -1;
      columns.forEach((column, place) => this.head(column, this.heads.children[place]));
    }
    const top = this.grid.scrollTop;
    const from = Math.max(Math.floor(top / ROW) - AROUND, 0);
    const until = Math.min(from + SHOWN + 2 * AROUND + 1, rows);
    while (this.pool.length < until - from) this.grow(columns.length);
    const used = new Set();
    for (let place = from; place < until; place++) {
      const element = this.pool[place % this.pool.length];
      used.add(element);
      if (element.row !== place) this.fill(element, place, columns);
    }
    for (const element of this.pool) element.hidden = !used.has(element);
  }

  // A head for each column, and the widths of the columns, which grow but do not shrink.
  arrange(columns) {
    const names = columns.map(({ name, kind }) => `${kind} ${name}`).join("\n");
    if (names !== this.names) {
      this.names = names;
      this.widths = columns.map(() => 0);
      this.heads.replaceChildren(...columns.map((column) => this.newHead(column)));
      for (const element of this.pool) element.remove();
      this.pool = [];
    }
    let changed = false;
    columns.forEach(({ name, kind, longest }, place) => {
      const words = kind === "text" ? Math.max(longest, 6) * LETTER + 20 : WIDTHS[kind];
      const width = Math.min(Math.max(words, name.length * LETTER + 34), WIDEST);
      changed ||= width > this.widths[place];
      this.widths[place] = Math.max(this.widths[place], width);
    });
    if (changed) this.grid.style.setProperty("--columns", this.widths.map((width) => `minmax(${Math.round(width)}px, 1fr)`).join(" "));
    if (changed) this.grid.style.setProperty("--width", `${Math.round(this.widths.reduce((sum, width) => sum + width, 0))}px`);
  }

  newHead({ name, kind }) {
    const element = make("div", kind === "text" ? "head" : "head number", "", { role: "columnheader", "aria-sort": "none" });
    const button = make("button", "", "", { type: "button", title: `sort by ${name}` });
    const arrow = make("span", "arrow", "", { "aria-hidden": "true" });
    button.append(make("span", "", name), arrow);
    button.addEventListener("click", () => this.choose(name));
    element.append(button, make("canvas", "", "", { "aria-hidden": "true" }), make("span", "about"));
    element.arrow = arrow;
    return element;
  }

  // A click sorts with the smallest first, another one with the largest first, and a third not at all.
  choose(name) {
    const { sort } = this;
    if (sort?.name !== name) this.sort = { name, descending: false };
    else this.sort = sort.descending ? null : { name, descending: true };
    this.show({ ...this.shown }); // the same rows, sorted anew
  }

  head(column, element) {
    const sort = this.sort?.name === column.name ? (this.sort.descending ? "descending" : "ascending") : "none";
    element.setAttribute("aria-sort", sort);
    put(element.arrow, { ascending: "▲", descending: "▼", none: "" }[sort]);
    put(element.lastChild, column.about);
    element.lastChild.title = column.about;
    this.chart(element.children[1], column);
  }

  // Bars of how many values lie where, or a line of earlier values.
  chart(canvas, { bars, line }) {
    const ratio = globalThis.devicePixelRatio || 1;
    const [width, height] = [88, 22];
    if (canvas.width !== width * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const values = line ?? bars;
    const known = values.filter((value) => value !== null);
    if (!known.length) return;
    const low = line ? Math.min(...known) : 0;
    const high = Math.max(...known);
    const share = (value) => (high > low ? (value - low) / (high - low) : line ? 0.5 : 1);
    context.fillStyle = context.strokeStyle = this.colours.get(line ? "p50" : "plain");
    if (line) {
      context.lineWidth = 1.5;
      context.beginPath();
      let pen = false;
      values.forEach((value, place) => {
        const x = 1 + (place * (width - 2)) / Math.max(values.length - 1, 1);
        if (value !== null) context[pen ? "lineTo" : "moveTo"](x, height - 2 - share(value) * (height - 4));
        pen = value !== null;
      });
      context.stroke();
      return;
    }
    const step = Math.min(width / values.length, 12);
    values.forEach((value, place) => {
      const tall = value ? Math.max(share(value) * (height - 2), 1.5) : 0;
      context.fillRect(place * step, height - tall, Math.max(step - 1, 1), tall);
    });
  }

  grow(columns) {
    const element = make("div", "line-of", "", { role: "row" });
    for (let place = 0; place < columns; place++) element.append(make("span", "", "", { role: "cell" }));
    element.row = -1;
    this.pool.push(element);
    this.body.append(element);
    for (const each of this.pool) each.row = -1; // their places in the pool have changed
  }

  fill(element, place, columns) {
    const row = this.order ? this.order[place] : place;
    element.row = place;
    element.style.transform = `translateY(${place * ROW}px)`;
    element.setAttribute("aria-rowindex", String(place + 2));
    const { fresh } = this.shown;
    const kind = fresh[row] ? "line-of fresh" : "line-of";
    if (element.className !== kind) element.className = kind;
    columns.forEach((column, at) => {
      const cell = element.children[at];
      const words = column.text(row);
      put(cell, words);
      const mark = column.marks ? MARKS[column.marks[row]] ?? "" : "";
      const look = [column.kind === "text" ? "" : "number", mark, column.isEmpty(row) ? "none" : ""].filter(Boolean).join(" ");
      if (cell.className !== look) cell.className = look;
      const title = words.length * LETTER > this.widths[at] - 16 ? words : "";
      if (cell.title !== title) cell.title = title;
    });
  }
}
