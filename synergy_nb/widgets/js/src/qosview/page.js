// The elements of the view, and the functions that put texts into them.
import { make, put } from "../common/elements.js";
import { guard } from "../common/guard.js";
import { colourOf } from "../common/peers.js";
import { GLYPHS } from "./picture.js";

const MANY = 24; // peers in the table, and components of one peer

function style(element, kind) {
  if (element.className !== kind) element.className = kind;
}

// Children of `parent` by key, created for new keys and removed with old ones, in the order of the keys.
function keyed(parent, keys, create) {
  const known = (parent.known ??= new Map());
  for (const [key, element] of known)
    if (!keys.includes(key)) {
      element.remove();
      known.delete(key);
    }
  return keys.map((key, index) => {
    if (!known.has(key)) known.set(key, create(key));
    const element = known.get(key);
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
    return element;
  });
}

export function build(el, spans, { span, pause }) {
  const root = make("section", "synergy-qos empty", "", { "aria-label": "quality of service, live" });
  guard(root);

  const header = make("header");
  const title = make("div", "title");
  const badge = make("span", "badge");
  const glyph = make("span", "glyph", "", { "aria-hidden": "true" });
  const status = make("span");
  badge.append(glyph, status);
  const name = make("h2");
  const facts = make("span", "facts");
  const sentence = make("p", "sentence");
  title.append(name, badge, facts, sentence);
  const controls = make("div", "controls");
  const group = make("div", "spans", "", { role: "group", "aria-label": "time that is shown" });
  const buttons = new Map();
  for (const [value, label] of spans) {
    const button = make("button", "", label, { type: "button" });
    button.addEventListener("click", () => span(value));
    buttons.set(value, button);
    group.append(button);
  }
  const hold = make("button", "hold", "Pause", { type: "button" });
  hold.addEventListener("click", pause);
  controls.append(group, hold);
  header.append(title, controls);

  const silence = make("p", "silence", "", { role: "status" });
  silence.hidden = true;
  const announcement = make("p", "announcement", "", { "aria-live": "polite" });
  const numbers = make("div", "numbers");
  const charts = make("div", "charts");
  const axis = make("p", "axis");
  const newest = make("div", "newest");
  const where = make("div", "where");
  const picture = make("div", "picture");
  const table = make("div", "peers", "", { role: "table", "aria-label": "peers" });
  const headings = make("div", "row head", "", { role: "row" });
  for (const [kind, words] of [
    ["who", "Peer"],
    ["bar", "Load"],
    ["number", "measured"],
    ["number promise", "promised"],
    ["past", "last two minutes"],
  ])
    headings.append(make("span", kind, words, { role: "columnheader" }));
  const rows = make("div", "rows", "", { role: "rowgroup" });
  const more = make("p", "more");
  const loads = make("p", "loads");
  table.append(headings, rows, more, loads);
  where.append(picture, table);
  const slacks = make("div", "slacks", "", { role: "table", "aria-label": "slack of operators" });
  slacks.append(slackRow(true));
  const slackRows = make("div", "rows", "", { role: "rowgroup" });
  slacks.append(slackRows);
  const waiting = make("p", "waiting", "Waiting for the kernel…");
  const story = make("div", "story");
  const lists = {};
  for (const [kind, words] of [
    ["marks", "What happened"],
    ["troubles", "Errors of peers"],
  ]) {
    const part = make("section", kind);
    part.append(make("h3", "", words), (lists[kind] = make("ul")));
    story.append(part);
  }
  root.append(header, silence, waiting, numbers, charts, axis, newest, where, slacks, story, announcement);
  el.append(root);

  function chosen(value) {
    for (const [each, button] of buttons) button.setAttribute("aria-pressed", String(each === value));
  }
  chosen(120);

  return {
    root,
    charts,
    newest,
    picture,
    chosen,
    room: () => root.clientWidth - 34,
    pausing(paused) {
      put(hold, paused ? "Resume" : "Pause");
      root.classList.toggle("paused", paused);
    },
    head(head) {
      put(name, head.title);
      put(glyph, head.glyph);
      put(status, head.status);
      style(badge, `badge ${head.tone}`);
      style(sentence, `sentence ${head.tone}`);
      const span = head.span === null ? "" : lasting(head.span);
      put(facts, [head.facts, span].filter(Boolean).join(" · "));
      put(sentence, head.sentence);
      put(axis, `minutes and seconds since ${head.origin}`);
    },
    // What has happened to the applications, the latest first, and errors of peers.
    happened(marks, troubles) {
      const latest = [...marks].reverse().slice(0, MANY);
      keyed(
        lists.marks,
        latest.map((mark) => `${mark.at} ${mark.text}`),
        () => make("li"),
      ).forEach((element, index) => {
        const { tone, after, text } = latest[index];
        style(element, tone);
        put(element, `${{ bad: "▲", good: "✓" }[tone] ?? "·"} ${after ? `after ${after}: ` : ""}${text}`);
      });
      keyed(
        lists.troubles,
        troubles.map((trouble) => trouble.text),
        () => make("li", "bad"),
      ).forEach((element, index) => {
        const { peers, text, count } = troubles[index];
        put(element, `▲ ${peers}: ${text}${count ? ` (${count})` : ""}`);
      });
      lists.marks.parentElement.hidden = !marks.length;
      lists.troubles.parentElement.hidden = !troubles.length;
      story.hidden = !marks.length && !troubles.length;
    },
    // What the two loads of a peer mean, and why they differ where they do.
    loads(piece) {
      put(loads, [piece?.about, ...(piece?.list ?? [])].filter(Boolean).join(" "));
    },
    // That there is no news, in words; an empty text when there is.
    silence(words) {
      put(silence, words && `▲ ${words}`);
      silence.hidden = !words;
    },
    announce(words) {
      put(announcement, words);
    },
    charting(any) {
      charts.hidden = axis.hidden = !any;
    },
    where(plan, any) {
      where.hidden = !plan && !any;
      picture.hidden = !plan;
    },
    beside(direction) {
      where.classList.toggle("beside", direction === "down");
    },
    flows(flows, kind) {
      const tiles = kind === "application" && flows.length === 1;
      if (numbers.tiles !== tiles) {
        numbers.tiles = tiles;
        numbers.known = undefined;
        numbers.replaceChildren();
      }
      numbers.hidden = !flows.length;
      style(numbers, tiles ? "numbers tiles" : "numbers list");
      if (tiles) {
        const [flow] = flows;
        const tilesOf = {
          p50: ["Delay p50", flow.p50, "half of the results", null],
          p99: ["Delay p99", flow.p99, flow.limit ? `limit ${flow.limit}` : "no limit", flow.delay_met],
          rate: ["Throughput", flow.rate, flow.required_rate ? `at least ${flow.required_rate}` : flow.tuples, flow.rate_met],
          miss: [
            "Miss rate",
            flow.miss,
            [flow.allowed_miss && `allowed ${flow.allowed_miss}`, `so far ${flow.missed}`].filter(Boolean).join(", "),
            flow.miss_met,
          ],
        };
        if (!flow.limit) delete tilesOf.miss;
        const keys = Object.keys(tilesOf);
        keyed(numbers, keys, tile).forEach((element, index) => fill(element, ...tilesOf[keys[index]]));
        return;
      }
      const cells = (flow) => [
        [`${flow.glyph} ${flow.label || flow.application}`, flow.status, null],
        [flow.p50, "", null],
        [flow.p99, flow.limit ? `of ${flow.limit}` : "p99", flow.delay_met],
        [flow.rate, flow.required_rate ? `of ${flow.required_rate}` : "", flow.rate_met],
        [flow.miss, flow.allowed_miss ? `of ${flow.allowed_miss}` : "", flow.miss_met],
      ];
      const keys = ["", ...flows.map((flow) => flow.id)];
      keyed(numbers, keys, (key) => line(key === "")).forEach((element, index) => {
        if (index === 0) return;
        cells(flows[index - 1]).forEach((given, column) => cell(element.children[column], ...given));
      });
    },
    // Slack of each operator, and its predictions beside what was measured.
    slacks(parts) {
      slacks.hidden = !parts.length;
      const shown = [...parts].sort((one, other) => (one.operator < other.operator ? -1 : 1)).slice(0, MANY);
      const keys = shown.map((part) => `${part.application}/${part.operator}`);
      keyed(slackRows, keys, () => slackRow(false)).forEach((element, index) => {
        const { operator, on, slack } = shown[index];
        const cells = [operator, on, slack.now, slack.least, slack.measured_time, slack.predicted_time, slack.measured_rate, slack.predicted_rate];
        cells.forEach((words, column) => put(element.children[column], words));
        style(element.children[2], slack.used_up ? "number bad" : "number");
        style(element.children[3], slack.was_used_up ? "number bad" : "number");
        style(element.children[5], slack.off ? "number bad" : "number");
        element.children[5].title = slack.off ?? "";
      });
    },
    // Rows of the table of peers; returns the canvas of each row, for its line of load.
    peers(peers, parts, coloured) {
      table.hidden = !peers.length;
      table.classList.toggle("parts", parts.length > 0);
      const shown = peers.slice(0, MANY);
      put(more, peers.length > MANY ? `and ${peers.length - MANY} more` : "");
      const keys = shown.map((peer) => peer.id);
      return keyed(rows, keys, row).map((element, index) => {
        const peer = shown[index];
        const { swatch, who, fill, mark, measured, promised, canvas, chips, bar } = element.cells;
        const colour = `var(--${coloured ? colourOf(peer.name) : "plain"})`;
        element.classList.toggle("gone", peer.gone);
        swatch.style.background = colour;
        put(who, peer.name);
        who.title = peer.id;
        fill.style.width = `${Math.min(peer.load ?? 0, 1) * 100}%`;
        fill.style.background = colour;
        mark.hidden = peer.promised === null;
        mark.style.left = `${Math.min(peer.promised ?? 0, 1) * 100}%`;
        bar.title = [
          peer.cores && `load ${peer.load_text} ${peer.cores}`,
          peer.predicted !== null && `${Math.round(peer.predicted * 100)} % predicted`,
          peer.overloaded && "overloaded",
          peer.promised_text && `${peer.promised_text} promised`,
          peer.memory,
        ]
          .filter(Boolean)
          .join(", ");
        put(measured, peer.gone ? `⊘ ${peer.load_text}` : peer.overloaded ? `▲ ${peer.load_text}` : peer.load_text);
        element.classList.toggle("overloaded", peer.overloaded);
        put(promised, peer.promised_text);
        const own = parts.filter((part) => part.peer === peer.id);
        const tokens = own.slice(0, MANY);
        chips.hidden = !own.length;
        keyed(
          chips,
          tokens.map((part) => `${part.application}/${part.operator}`),
          () => make("li"),
        ).forEach((chip, place) => {
          const part = tokens[place];
          chip.dataset.of = part.application === tokens[place - 1]?.application ? "" : part.title;
          style(chip, part.state);
          put(chip, `${GLYPHS[part.state]} ${part.operator}`);
          chip.title = [`${part.operator} of ${part.title}: ${part.state_text}`, part.tip].filter(Boolean).join("\n");
        });
        return { canvas, id: peer.id, name: peer.name };
      });
    },
  };
}

const SLACKS = ["Operator", "Peer", "Slack", "least", "Time measured", "predicted", "Rate measured", "predicted"];

function slackRow(heading) {
  const element = make("div", heading ? "slack-row head" : "slack-row", "", { role: "row" });
  SLACKS.forEach((words, column) => {
    const kind = column > 1 ? "number" : column ? "on" : "who";
    element.append(make("span", kind, heading ? words : "", { role: heading ? "columnheader" : "cell" }));
  });
  return element;
}

function lasting(span) {
  const minutes = Math.floor(span / 60);
  if (minutes < 1) return `${span} s`;
  if (minutes < 60) return `${minutes} min ${span % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function tile() {
  const element = make("dl");
  element.append(make("dt"), make("dd", "value"), make("dd", "note"));
  return element;
}

function fill(element, label, value, note, good) {
  const [term, number, about] = element.children;
  put(term, label);
  put(number, value);
  put(about, `${verdict(good)}${note}`.replace(/(\d) (?=[%µms]+)/g, "$1\u00a0"));
  style(element, good === false ? "bad" : "");
}

const verdict = (good) => (good === null || good === undefined ? "" : good ? "✓ " : "▲ ");

function line(heading) {
  const element = make("div", heading ? "line head" : "line");
  for (const words of ["", "Delay p50", "Delay p99", "Throughput", "Miss rate"]) {
    const each = make("div");
    if (heading) put(each, words);
    else each.append(make("span", "value"), make("span", "note"));
    element.append(each);
  }
  return element;
}

function cell(element, value, note, good) {
  put(element.children[0], value);
  put(element.children[1], `${verdict(good)}${note}`);
  style(element, good === false ? "bad" : "");
}

function row() {
  const element = make("div", "row", "", { role: "row" });
  const who = make("span", "name");
  const swatch = make("i", "swatch", "", { "aria-hidden": "true" });
  const first = make("span", "who", "", { role: "rowheader" });
  first.append(swatch, who);
  const bar = make("span", "bar", "", { role: "cell" });
  const track = make("span", "track");
  const fill = make("i", "fill");
  const mark = make("i", "mark");
  track.append(fill, mark);
  bar.append(track);
  const measured = make("span", "number", "", { role: "cell" });
  const promised = make("span", "number promise", "", { role: "cell" });
  const past = make("span", "past", "", { role: "cell" });
  const canvas = make("canvas", "", "", { "aria-hidden": "true" });
  past.append(canvas);
  const chips = make("ul", "chips", "", { role: "cell" });
  element.append(first, bar, measured, promised, past, chips);
  element.cells = { swatch, who, fill, mark, measured, promised, canvas, chips, bar };
  return element;
}
