// The panel of knobs: it changes peers, links, sources and costs while applications run; in a simulation it also plays time.
import { Contact } from "./common/contact.js";
import { guard } from "./common/guard.js";
import { seconds } from "./qosview/format.js";
import "./knobpanel.css";

const PLAY_INTERVAL = 400; // milliseconds between two pieces of virtual time
const PIECE = 0.5; // length of a piece, virtual seconds
const FACTORS = [0, 0.25, 0.5, 1, 2, 4, 8];
const LOADS = [0, 0.25, 0.5, 0.75, 0.9, 0.99];
let copies = 0;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children);
  return element;
}

function choice(label, words = String) {
  const select = make("select");
  const field = make("label", {}, make("span", {}, label), select);
  return {
    field,
    get value() {
      return select.value;
    },
    set value(to) {
      select.value = to;
    },
    on: (act) => select.addEventListener("change", act),
    offer(values, none = "") {
      select.title = values.length ? "" : none;
      const before = select.value;
      const same = select.options.length === values.length && values.every((value, at) => select.options[at].value === String(value));
      if (same) return;
      select.replaceChildren(...values.map((value) => make("option", { value }, words(value))));
      if (values.map(String).includes(before)) select.value = before;
    },
  };
}

class Panel {
  constructor({ model, el, signal }) {
    this.model = model;
    this.state = null;
    this.waiting = false; // for the outcome of an act
    this.timer = null;
    this.build(el);
    this.contact = new Contact(() => this.model.send({ kind: "here" }), (words) => this.silence(words));
    this.onMessage = (content) => {
      this.contact.news();
      if (content.kind === "state") this.receive(content);
    };
    model.on("msg:custom", this.onMessage);
    this.send({ kind: "ready" });
    signal?.addEventListener("abort", () => this.close());
  }

  send(content) {
    try {
      this.model.send(content);
    } catch {
      this.say("There is no kernel any more: run the cell again.", true);
    }
  }

  act(name, values) {
    if (this.waiting) return;
    this.waiting = true;
    this.send({ kind: "act", act: name, arguments: values });
  }

  build(el) {
    const id = `knobs-${++copies}`;
    const button = (label, act, kind = "") => {
      const made = make("button", { type: "button", class: kind }, label);
      made.addEventListener("click", act);
      return made;
    };
    const row = (title, act, ...children) => {
      const made = make("div", { class: "row", role: "group", "aria-label": title, "data-act": act }, make("h3", {}, title), ...children);
      return made;
    };
    this.peer = choice("Peer");
    this.leaver = choice("Peer that leaves");
    this.one = choice("From");
    this.other = choice("To");
    this.share = choice("Load of other programs", (value) => `${Math.round(value * 100)} %`);
    this.share.offer(LOADS);
    this.application = choice("Application");
    this.source = choice("Source");
    this.factor = choice("Pace", (value) => (Number(value) === 0 ? "stopped" : `× ${value}`));
    this.factor.offer(FACTORS);
    this.factor.value = 1;
    this.operator = choice("Operator");
    this.newcomer = make("input", { type: "text", size: 12, maxlength: 80 });
    this.cost = make("input", { type: "number", min: 0, step: "any", value: 1 });
    this.now = make("output", { class: "now" });
    this.playing = button("Play", () => this.play(), "play");
    this.peer.on(() => (this.share.value = 0));
    this.application.on(() => this.offerParts());
    const ofPeer = (act) => () => this.act(act, { peer: this.peer.value });
    const ofLink = (act) => () => this.act(act, { peer: this.one.value, other: this.other.value });
    this.rows = [
      row("Time", "run", this.now, this.playing, button("1 s", () => this.run(1)), button("10 s", () => this.run(10))),
      row("Peer", "kill", this.peer.field, button("Suspend", ofPeer("suspend")), button("Resume", ofPeer("resume")), button("Kill", ofPeer("kill"), "danger"), this.share.field,
        button("Set load", () => this.act("load", { peer: this.peer.value, share: Number(this.share.value) }))),
      row("Ring", "join", make("label", {}, make("span", {}, "New peer"), this.newcomer), button("Join", () => this.act("join", { peer: this.newcomer.value.trim() })), this.leaver.field,
        button("Leave", () => this.act("leave", { peer: this.leaver.value }))),
      row("Link", "cut", this.one.field, this.other.field, button("Cut", ofLink("cut")), button("Mend", ofLink("mend"))),
      row("Source", "pace", this.application.field, this.source.field, this.factor.field,
        button("Set pace", () => this.act("pace", { application: this.application.value, source: this.source.value, factor: Number(this.factor.value) }))),
      row("Cost", "cost", this.operator.field, make("label", {}, make("span", {}, "Cost of a tuple, ms"), this.cost),
        button("Set cost", () => this.act("cost", { application: this.application.value, operator: this.operator.value, seconds: this.cost.valueAsNumber / 1000 }))),
    ];
    this.outcome = make("p", { class: "outcome", role: "status" });
    this.root = make("div", { class: "synergy-knobs", role: "region", "aria-label": "Knobs on what runs", id }, ...this.rows, this.outcome);
    guard(this.root);
    el.append(this.root);
  }

  receive(state) {
    this.waiting = false;
    this.state = state;
    for (const row of this.rows) row.hidden = !state.acts.includes(row.dataset.act);
    if (state.now !== null) this.now.textContent = seconds(state.now);
    for (const select of [this.peer, this.leaver, this.one, this.other]) select.offer(state.peers);
    if (this.one.value === this.other.value && state.peers.length > 1) this.other.value = state.peers[1];
    this.application.offer(Object.keys(state.applications));
    this.offerParts();
    if (state.message !== undefined && (state.failed || !this.timer)) this.say(state.message, state.failed);
    if (state.failed && this.timer) this.play();
  }

  offerParts() {
    const parts = this.state.applications[this.application.value] ?? { sources: [], operators: [] };
    this.source.offer(parts.sources, "No application with a source runs.");
    this.operator.offer(parts.operators, "The application has no delay: only the cost of a delay can be changed.");
    for (const row of this.rows)
      if (["pace", "cost"].includes(row.dataset.act)) {
        const none = row.dataset.act === "pace" ? !parts.sources.length : !parts.operators.length;
        for (const field of row.querySelectorAll("button, select, input")) field.disabled = none;
      }
  }

  run(time) {
    this.act("run", { seconds: time });
  }

  // Virtual time passes in pieces; a piece begins when the one before it has ended.
  play() {
    if (this.timer) clearInterval(this.timer);
    this.timer = this.timer ? null : setInterval(() => this.run(PIECE), PLAY_INTERVAL);
    this.playing.textContent = this.timer ? "Pause" : "Play";
  }

  // Without news an act that has no answer does not stand in the way of the next one.
  silence(words) {
    this.waiting = false;
    if (words) this.say(words, true);
    else this.say("The kernel answers again.", false);
  }

  say(words, failed) {
    this.outcome.textContent = `${failed ? "▲" : "✓"} ${words}`;
    this.outcome.classList.toggle("bad", Boolean(failed));
  }

  close() {
    clearInterval(this.timer);
    this.contact.close();
    this.model.off("msg:custom", this.onMessage);
  }
}

export default {
  render(context) {
    const panel = new Panel(context);
    return () => panel.close();
  },
};
