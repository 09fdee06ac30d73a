// The page of the stage: picture, moment, controls, and the table of graphs.
import { guard } from "../common/guard.js";
import { seconds } from "../qosview/format.js";
import { wayOf } from "./state.js";

export const KINDS = ["command", "look-up", "probe", "graph", "set-up", "replicas", "move", "run", "death", "ring"];
const GLYPHS = { good: "✓", bad: "▲", note: "·" };
const MOST_ROWS = 40; // graphs that the table shows
let copies = 0;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name === "class") element.className = value;
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children);
  return element;
}

const ICONS = { // shapes in a square of 16
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  previous: "M11 3v10L4 8z",
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M5 3v10l7-5z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
};

function icon(name) {
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawing.setAttribute("viewBox", "0 0 16 16");
  drawing.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", ICONS[name]);
  drawing.append(shape);
  return drawing;
}

function button(label, name, act) {
  const made = make("button", { type: "button", "aria-label": label, title: label }, icon(name));
  made.addEventListener("click", act);
  return made;
}

const put = (element, words) => {
  if (element.textContent !== words) element.textContent = words;
};

export function build(el, act) {
  const name = `stage-${++copies}`;
  const title = make("h2");
  const outcome = make("p", { class: "outcome" });
  const made = make("p", { class: "made" });
  const arrangements = make("fieldset", { class: "switch" }, make("legend", { class: "unseen" }, "Arrangement of the peers"));
  const radios = new Map();
  for (const [kind, words] of [["map", "Map"], ["ring", "Ring"]]) {
    const radio = make("input", { type: "radio", name, value: kind });
    radio.addEventListener("change", () => act.arrange(kind));
    radios.set(kind, radio);
    arrangements.append(make("label", {}, radio, make("span", {}, words)));
  }
  const picture = make("div", { class: "picture" });
  const when = make("p", { class: "when" });
  const way = make("p", { class: "way-text" });
  const what = make("p", { class: "what" });
  const text = make("p", { class: "text" });
  const verdicts = make("ul", { class: "verdicts" });
  const numbers = make("dl", { class: "numbers" });
  const moment = make("section", { class: "moment", "aria-label": "Moment" }, when, way, what, text, verdicts, numbers);
  const slider = make("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Moment" });
  slider.addEventListener("input", () => act.go(Number(slider.value)));
  const play = button("Play", "play", act.play);
  const count = make("output", { class: "count" });
  const pace = make("select", { "aria-label": "Pace of playing" });
  for (const each of ["slow", "normal", "fast"]) pace.append(make("option", { value: each, selected: each === "normal" }, each));
  pace.addEventListener("change", () => act.pace(pace.value));
  const controls = make("div", { class: "controls" },
    button("First moment (Home)", "first", () => act.go(0)), button("Previous moment (left arrow)", "previous", () => act.move(-1)), play,
    button("Next moment (right arrow)", "next", () => act.move(1)), button("Last moment (End)", "last", () => act.go(Infinity)), slider, count, pace);
  const kinds = make("div", { class: "kinds", role: "group", "aria-label": "Kinds of moments that are stepped through" });
  const graphs = make("div", { class: "graphs", hidden: true });
  const hint = make("p", { class: "hint" }, "Keys: ← → moments, space plays, m changes the arrangement.");
  const announcement = make("p", { class: "announcement", "aria-live": "polite" });
  const waiting = make("p", { class: "waiting" }, "The stage waits for its kernel.");
  const root = make("div", { class: "synergy-stage empty", tabindex: 0, role: "region", "aria-label": "Protocol stage" },
    make("header", {}, make("div", {}, title, outcome, made), arrangements), waiting,
    make("div", { class: "scene" }, picture, moment), controls, kinds, graphs, hint, announcement);
  guard(root);
  el.append(root);
  const toggles = new Map();
  let replay = null;
  let rows = "";

  return {
    root,
    picture,

    begin(given, counts) {
      replay = given;
      root.classList.remove("empty");
      put(title, replay.request);
      const named = replay.request.startsWith(replay.plan) ? "" : `plan ${replay.plan}, `;
      put(outcome, `${named}submitted at ${replay.origin}: ${replay.outcome}`);
      outcome.title = outcome.textContent;
      put(made, replay.made_from && `made from ${replay.made_from}`);
      slider.max = Math.max(replay.moments.length - 1, 0);
      const mapped = replay.peers.some((peer) => peer.x !== null);
      arrangements.hidden = !mapped;
      for (const kind of KINDS.filter((each) => counts.has(each))) {
        const toggle = make("button", { type: "button", class: `kind ${kind}`, "aria-pressed": "true" }, make("i"), `${kind} ${counts.get(kind)}`);
        toggle.title = `Step through moments of the kind ${kind}, or leave them out`;
        toggle.addEventListener("click", () => act.toggle(kind));
        toggles.set(kind, toggle);
        kinds.append(toggle);
      }
    },

    kinds(hidden) {
      for (const [kind, toggle] of toggles) toggle.setAttribute("aria-pressed", String(!hidden.has(kind)));
    },

    playing(plays) {
      play.replaceChildren(icon(plays ? "pause" : "play"));
      play.setAttribute("aria-label", plays ? "Pause" : "Play");
      play.title = plays ? "Pause" : "Play";
    },

    show(step, at, state, arrangement) {
      for (const [kind, radio] of radios) radio.checked = kind === arrangement;
      slider.value = step;
      put(count, `${Math.min(step + 1, replay.moments.length)} of ${replay.moments.length}`);
      if (!at) return put(text, "Nothing was recorded about this request.");
      slider.setAttribute("aria-valuetext", `${step + 1} of ${replay.moments.length}: ${at.title}`);
      when.className = `when ${at.kind}`;
      when.replaceChildren(make("i"), `${seconds(at.at)} after submission · ${at.kind}`);
      put(way, wayOf(at));
      put(what, at.title);
      put(text, at.text);
      const lost = at.under_way ? ["note", "may be on its way still"] : ["bad", "nobody received it"];
      const told = at.received ? at.verdicts : [...at.verdicts, lost];
      verdicts.replaceChildren(...told.map(([tone, words]) => make("li", { class: tone }, `${GLYPHS[tone]} ${words}`)));
      numbers.replaceChildren(...at.numbers.flatMap(([label, value]) => [make("dt", {}, label), make("dd", {}, value)]));
      this.graphs(state.graphs);
    },

    // The complete graphs that are known; the bars compare φ.
    graphs(known) {
      graphs.hidden = !replay.graphs.length;
      const key = known.map((graph) => [graph.phi, graph.isChosen, graph.hasFailed, graph.fresh, JSON.stringify(graph.peers)].join()).join(";");
      if (key === rows && graphs.childElementCount) return;
      rows = key;
      const most = Math.max(...known.map((graph) => graph.phi ?? 0), 1e-12);
      const head = make("tr", {}, ...["", "φ", "projected delay", "components", "reason"].map((words) => make("th", { scope: "col" }, words)));
      const body = known.slice(0, MOST_ROWS).map((graph) => {
        const verdict = graph.isChosen ? "✓ chosen" : graph.hasFailed ? "▲ set-up failed" : graph.unqualified ? "▲ does not qualify" : "";
        const bar = make("span", { class: "bar" });
        bar.style.width = `${Math.max(((graph.phi ?? 0) / most) * 100, 1)}%`;
        const row = make("tr", { class: [graph.isChosen && "chosen", (graph.unqualified || graph.hasFailed) && "unqualified", graph.fresh && "fresh"].filter(Boolean).join(" "), tabindex: 0 },
          make("td", { class: "verdict" }, verdict),
          make("td", { class: "phi" }, make("span", { class: "number" }, graph.phi === null ? "–" : graph.phi.toPrecision(4)), bar),
          make("td", { class: "number" }, seconds(graph.delay_s)),
          make("td", {}, Object.entries(graph.peers).map(([operator, peer]) => `${operator}@${peer}`).join(", ")),
          make("td", { class: "why" }, graph.unqualified || (graph.hasFailed ? graph.failure : graph.isChosen ? `by ${graph.why}` : "")));
        const peers = new Set(Object.values(graph.peers));
        for (const event of ["mouseenter", "focus"]) row.addEventListener(event, () => act.hover(peers));
        for (const event of ["mouseleave", "blur"]) row.addEventListener(event, () => act.hover(new Set()));
        return row;
      });
      const more = known.length > MOST_ROWS ? ` (the best ${MOST_ROWS} are shown)` : "";
      const caption = `complete graphs: ${known.length} of ${replay.graphs.length} known${known.length ? more : " yet"}`;
      graphs.replaceChildren(make("table", {}, make("caption", {}, caption), make("thead", {}, known.length ? head : ""), make("tbody", {}, ...body)));
    },

    announce(words) {
      put(announcement, words);
    },
  };
}
