// The newest rows of an application as a table. The kernel has them, and orders them; the page has the rows around those
// on its screen, and asks for others when it is scrolled near their end. Only the rows on the screen are elements, each
// head has a small chart, and a click on it sorts. Rows of a moment that was brushed are shown in their place until one
// goes back.
import { make, put } from "../common/elements.js";

const ROW = 24; // height of a row, pixels
const AROUND = 6; // rows above and below those on the screen
const SHOWN = 13; // rows on the screen, at most
const NEAR = 40; // rows that are there beyond the screen, at least, before others are asked for
const MARKS = { 1: "up", 2: "down", 3: "other" };
const LEAST = { text: 64, number: 92 }; // width of a column, pixels
const LETTER = 7.4; // pixels
const WIDEST = 320; // pixels
const PATIENCE = 700; // milliseconds that the kernel may take before the page says that it is waited for
const WAITING = "the kernel is busy: it shows other rows, or another order, when it answers";

export class Rows {
  // `colours`: palette of the view; `ask`: sends a message to the kernel; `back`: called when one goes back from a
  // moment to the newest rows.
  constructor(parent, { sink, colours, ask, back }) {
    this.colours = colours;
    this.send = ask;
    this.newest = this.shown = null; // what a message had
    this.turn = 0; // of the last question
    this.answered = 0; // turn of the last answer
    this.held = false; // whether what is shown stays, while newer rows come
    this.moment = null; // times between which the rows came that are shown
    this.sort = null; // name of a column, and whether the largest come first, as it was asked for
    this.names = "";
    this.widths = [];
    this.pool = [];
    this.frame = this.timer = 0;
    this.late = false; // whether the kernel has not answered for a while
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

  // -- what is asked for ---------------------------------------------------------------------------------------------

  // Asks the kernel for the rows around those on the screen, in the order that was chosen.
  ask() {
    this.turn++;
    const [since, until] = this.moment ?? [];
    const { name = "", descending = false } = this.sort ?? {};
    this.send({ kind: "look", turn: this.turn, first: this.top, by: name, descending, held: this.held, since, until });
    this.timer ||= setTimeout(() => this.wait(true), PATIENCE);
    this.grid.setAttribute("aria-busy", "true");
  }

  get top() {
    return Math.floor(this.grid.scrollTop / ROW);
  }

  get waits() {
    return this.answered < this.turn;
  }

  // Asks for the rows that the screen shows or soon will, if they are not there; one question at a time.
  reach() {
    const { begin, rows, cells } = this.shown;
    const end = begin + (cells[0]?.length ?? 0);
    const beyond = (begin > 0 && this.top - NEAR < begin) || (end < rows && this.top + SHOWN + NEAR > end);
    if (beyond && !this.waits) this.ask();
  }

  // A click sorts with the smallest first, another one with the largest first, and a third not at all.
  choose(name) {
    const { sort } = this;
    if (sort?.name !== name) this.sort = { name, descending: false };
    else this.sort = sort.descending ? null : { name, descending: true };
    this.ask();
    this.present(this.shown);
  }

  // Show what came in a time; until `leave`.
  brush(since, until) {
    this.moment = [since, until];
    this.ask();
  }

  leave() {
    if (!this.moment) return;
    this.moment = null;
    this.back.hidden = this.then.hidden = true;
    this.ask();
    this.present(this.newest ?? this.shown);
  }

  hold(held) {
    this.held = held;
    this.ask();
    if (!held && !this.moment && this.newest) this.present(this.newest);
  }

  // -- what came -----------------------------------------------------------------------------------------------------

  // Takes the newest rows, or those that stay.
  take(content) {
    const { to, turn, held } = content;
    if (!to && this.turn) return; // for pages that have not asked for anything
    this.heard(turn);
    this.newest = content;
    if (!this.moment && held === this.held) this.present(content);
  }

  // Takes the rows of a time, with what happened then.
  brushed(content, caption, happened) {
    this.heard(content.turn);
    if (this.back.hidden) this.grid.scrollTop = 0;
    this.back.hidden = this.then.hidden = false;
    this.then.replaceChildren(
      ...(happened.length ? happened : [{ text: "nothing happened to the application then", tone: "" }]).map(({ text, tone }) =>
        make("li", tone, `${{ bad: "▲", good: "✓" }[tone] ?? "·"} ${text}`),
      ),
    );
    this.present({ ...content, caption: `${caption}: ${content.caption}` });
  }

  heard(turn) {
    this.answered = Math.max(this.answered, turn);
    if (!this.waits) this.wait(false);
  }

  // Says that the kernel is waited for, or not any more.
  wait(late) {
    clearTimeout(this.timer);
    this.timer = 0;
    this.grid.setAttribute("aria-busy", String(this.waits));
    if (this.late === late) return;
    this.late = late;
    if (this.shown) this.present(this.shown);
  }

  present(rows) {
    if (!rows) return;
    this.shown = rows;
    put(this.caption, this.late ? `${rows.caption} · ${WAITING}` : rows.caption);
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
    const from = Math.max(this.top - AROUND, 0);
    const until = Math.min(from + SHOWN + 2 * AROUND + 1, rows);
    while (this.pool.length < until - from) this.grow(columns.length);
    const used = new Set();
    for (let place = from; place < until; place++) {
      const element = this.pool[place % this.pool.length];
      used.add(element);
      if (element.row !== place) this.fill(element, place, columns);
    }
    for (const element of this.pool) element.hidden = !used.has(element);
    this.reach();
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
    columns.forEach(({ name, kind }, place) => {
      const longest = this.shown.cells[place].reduce((most, words) => Math.max(most, words?.length ?? 0), 0);
      const width = Math.min(Math.max(LEAST[kind], longest * LETTER + 20, name.length * LETTER + 34), WIDEST);
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

  head(column, element) {
    const { by, descending } = this.shown;
    const sort = by === column.name ? (descending ? "descending" : "ascending") : "none";
    const asked = this.sort?.name === column.name ? (this.sort.descending ? "descending" : "ascending") : "none";
    element.setAttribute("aria-sort", sort);
    put(element.arrow, asked === sort ? { ascending: "▲", descending: "▼", none: "" }[sort] : "…");
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
    const { begin, cells, marks, fresh } = this.shown;
    const row = place - begin;
    const here = row >= 0 && row < (cells[0]?.length ?? 0);
    element.row = place;
    element.style.transform = `translateY(${place * ROW}px)`;
    element.setAttribute("aria-rowindex", String(place + 2));
    const kind = !here ? "line-of awaited" : fresh[row] ? "line-of fresh" : "line-of";
    if (element.className !== kind) element.className = kind;
    columns.forEach((column, at) => {
      const cell = element.children[at];
      const words = here ? (cells[at][row] ?? "") : "…";
      put(cell, words);
      const mark = here && marks[at] ? (MARKS[marks[at][row]] ?? "") : "";
      const empty = here && cells[at][row] === null ? "none" : "";
      const look = [column.kind === "text" ? "" : "number", mark, empty].filter(Boolean).join(" ");
      if (cell.className !== look) cell.className = look;
      const title = words.length * LETTER > this.widths[at] - 16 ? words : "";
      if (cell.title !== title) cell.title = title;
    });
  }
}
