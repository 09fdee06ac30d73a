// Linked charts of a trace. The page draws counts that the kernel has counted, once a frame at most, and sends which bars are
// selected. It sends the newest ones after the answer to the last, and asks the kernel to prepare the next brush while the hand
// rests.
import { Contact } from "./common/contact.js";
import { make } from "./common/elements.js";
import { guard } from "./common/guard.js";
import { KeyChart, RangeChart } from "./tracecharts/charts.js";
import "./tracecharts.css";

const WAIT = 5000; // milliseconds until the page no longer waits for an answer
const LATE = 400; // milliseconds without an answer after which the page says that rows are being counted
const REST = 80; // milliseconds without a brush after which the kernel prepares the next one

class View {
  constructor({ model, el }) {
    this.model = model;
    this.pending = new Map(); // number of a chart to what is to be sent of it
    this.waiting = null; // timer while an answer is due
    this.asked = []; // numbers of the charts whose bars an answer is due to
    this.frame = null; // the next drawing
    this.hovered = 0;
    this.held = false; // whether a pointer is down on a chart
    this.missing = true; // whether the kernel may have something to prepare
    this.root = make("div", "synergy-trace");
    guard(this.root);
    const head = make("header");
    this.everything = make("button", "everything", "Clear all", { type: "button" });
    this.everything.addEventListener("click", () => this.clear());
    head.append(make("h2", "", model.get("title")), this.everything);
    this.sentence = make("p", "sentence", "", { "aria-live": "polite" });
    this.silence = make("p", "silence", "", { role: "status" });
    this.silence.hidden = true;
    const grid = make("div", "charts");
    this.root.append(head, this.silence, this.sentence, grid);
    this.charts = model.get("charts").map((chart, place) => {
      const kind = chart.kind === "keys" ? KeyChart : RangeChart;
      const made = new kind(chart, {
        brush: (bars) => this.brush(place, bars),
        hold: (held) => this.hold(held),
      });
      made.element.addEventListener("pointerenter", () => this.hover(place));
      made.element.addEventListener("focusin", () => this.hover(place));
      grid.append(made.element);
      return made;
    });
    el.append(this.root);
    this.contact = new Contact(
      () => model.send({ kind: "here" }),
      (words) => {
        this.silence.textContent = words;
        this.silence.hidden = !words;
      },
    );
    this.onAnswer = () => this.answered();
    this.onMessage = (content) => this.receive(content);
    model.on("change:answers", this.onAnswer);
    model.on("msg:custom", this.onMessage);
    this.draw();
    this.rest();
  }

  // -- the kernel ----------------------------------------------------------------------------------------------------

  brush(place, bars) {
    this.pending.set(place, bars);
    this.send();
  }

  clear() {
    this.pending.clear();
    this.charts.forEach((chart, place) => {
      chart.select(null);
      this.pending.set(place, null);
    });
    this.send();
  }

  send() {
    clearTimeout(this.resting);
    if (this.waiting !== null || !this.pending.size) return;
    const everything = this.pending.size === this.charts.length && [...this.pending.values()].every((bars) => !bars);
    const [place, bars] = this.pending.entries().next().value;
    this.asked = everything ? [...this.pending.keys()] : [place];
    for (const each of this.asked) this.pending.delete(each);
    this.waiting = setTimeout(() => this.done(), WAIT);
    this.late = setTimeout(() => this.root.classList.add("busy"), LATE);
    this.model.send(everything ? { kind: "clear" } : bars ? { kind: "brush", chart: place, bars } : { kind: "clear", chart: place });
  }

  answered() {
    this.contact.news();
    this.frame ??= requestAnimationFrame(() => this.draw());
    this.done();
  }

  done() {
    clearTimeout(this.waiting);
    clearTimeout(this.late);
    this.waiting = null;
    this.asked = [];
    this.missing = true;
    this.root.classList.remove("busy");
    if (this.pending.size) this.send();
    else this.rest();
  }

  receive(content) {
    this.contact.news();
    if (content.kind !== "rest") return;
    this.missing = content.left > 0;
    this.rest(0);
  }

  // Asks for one step of preparation, unless there is something else to do.
  rest(after = REST) {
    clearTimeout(this.resting);
    if (!this.missing || this.closed) return;
    this.resting = setTimeout(() => {
      if (this.held || this.waiting !== null || document.hidden) return;
      try {
        this.model.send({ kind: "rest", chart: this.hovered });
      } catch {
        // there is no kernel any more: what is drawn stays
      }
    }, after);
  }

  hover(place) {
    this.hovered = place;
  }

  hold(held) {
    this.held = held;
    if (!held) this.rest(0);
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  draw() {
    this.frame = null;
    const bytes = this.model.get("counts");
    const counts = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    const brushes = this.model.get("brushes");
    let at = 0;
    this.charts.forEach((chart, place) => {
      const newer = this.pending.has(place) || this.asked.includes(place); // than what is answered
      chart.draw(counts.subarray(at, at + chart.bars + 1), newer ? chart.selected : brushes[place]);
      at += chart.bars + 1;
    });
    this.sentence.textContent = this.model.get("sentence");
    this.everything.disabled = !brushes.some((each) => each);
  }

  close() {
    this.closed = true;
    this.model.off("change:answers", this.onAnswer);
    this.model.off("msg:custom", this.onMessage);
    this.contact.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.waiting);
    clearTimeout(this.late);
    clearTimeout(this.resting);
  }
}

export default {
  render(context) {
    const view = new View(context);
    return () => view.close();
  },
};
