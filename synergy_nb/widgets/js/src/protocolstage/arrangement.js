// The peers on the ring of the directory or on the map of delays, and the messages that travel between them.
import { counted } from "../common/counted.js";
import { colourOf } from "../common/peers.js";
import { rootOf } from "./state.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 620;
const HIGH = 460;
const MARGIN = 54;
const MOST_NAMED_PEERS = 24; // number of peers up to which the names of all are shown
const LETTER = 6.6; // approximate width of a letter, pixels
const TRAIL = 6; // number of earlier messages whose ways are still shown
const TRAVEL = 420; // milliseconds that a message takes in the picture

function make(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Pixels that a text has at a place within the picture, and the words that fit there.
const roomAt = ({ x, anchor }) => (anchor === "start" ? WIDE - x : anchor === "end" ? x : 2 * Math.min(x, WIDE - x)) - 4;
const cut = (words, room) => (words.length * LETTER <= room ? words : `${words.slice(0, Math.max(Math.floor(room / LETTER) - 1, 1))}…`);
const roomiest = (boxed) => {
  const within = boxed.filter(({ box: [, top, , bottom] }) => top > 2 && bottom < HIGH - 2);
  const lack = ({ spot, box: [left, , right] }) => Math.max(right - left - roomAt(spot), 0);
  return within.reduce((best, each) => (lack(each) < lack(best) ? each : best));
};

const line = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

export class Arrangement {
  constructor(parent, replay) {
    this.replay = replay;
    this.index = new Map(replay.moments.map((moment, at) => [moment, at]));
    this.kind = null;
    this.drawing = make("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" });
    this.title = make("title");
    this.drawing.append(this.title);
    parent.replaceChildren(this.drawing);
    this.quiet = matchMedia("(prefers-reduced-motion: reduce)");
  }

  // Coordinates of a share of the ring's turn, at a distance from its centre in radii.
  onRing(turn, radii = 1) {
    const angle = 2 * Math.PI * turn - Math.PI / 2;
    const radius = (HIGH / 2 - MARGIN) * radii;
    return [WIDE / 2 + radius * Math.cos(angle), HIGH / 2 + radius * Math.sin(angle)];
  }

  place(peer) {
    if (this.kind === "map" && peer.x !== null) {
      const span = Math.min(WIDE, HIGH) - 2 * MARGIN;
      const across = WIDE - 2 * MARGIN;
      return [MARGIN + peer.x * across, MARGIN + peer.y * span];
    }
    return this.onRing(peer.ring);
  }

  // The parts that stay from moment to moment: the ring, its keys, and the peers.
  arrange(kind) {
    this.kind = kind;
    this.at = new Map(this.replay.peers.map((peer) => [peer.name, this.place(peer)]));
    this.groups = new Map();
    this.keys = new Map();
    this.back = make("g", { class: "back" });
    this.ways = make("g", { class: "ways" });
    this.front = make("g", { class: "front" });
    this.moving = make("g", { class: "moving" });
    const few = this.replay.peers.length <= MOST_NAMED_PEERS;
    if (kind !== "map") {
      const [cx, cy] = [WIDE / 2, HIGH / 2];
      this.back.append(make("circle", { class: "circle", cx, cy, r: HIGH / 2 - MARGIN }));
      const taken = [];
      for (const key of this.replay.keys) this.back.append(this.key(key, taken));
    }
    this.roots = null; // for which state of the ring the lines from its keys are drawn
    for (const peer of this.replay.peers) {
      const [x, y] = this.at.get(peer.name);
      const group = make("g", { class: "peer", "data-peer": peer.name, style: `--own: var(--${colourOf(peer.name)})` });
      const name = make("text");
      const tip = make("title");
      const cores = peer.cores === null ? "" : `, ${counted(peer.cores, "core")}`;
      const about = `${peer.name}${cores}, key ${peer.key}…`;
      tip.textContent = about;
      group.append(make("circle", { class: "dot", cx: x, cy: y, r: few ? 5 : 3 }), make("path", { class: "cross", d: `M${x - 5},${y - 5}l10,10m0,-10l-10,10` }), name, tip);
      this.groups.set(peer.name, { group, name, tip, about, few });
      this.front.append(group);
    }
    this.drawing.replaceChildren(this.title, this.back, this.ways, this.front, this.moving);
  }

  // Places for a name beside its peer, the one that is farthest from the middle first.
  spots([x, y]) {
    const [dx, dy] = [x - WIDE / 2, y - HIGH / 2];
    const beside = [{ x: x + 10, y: y + 4, anchor: "start" }, { x: x - 10, y: y + 4, anchor: "end" }];
    const around = [{ x, y: y - 11, anchor: "middle" }, { x, y: y + 19, anchor: "middle" }];
    const corners = [-12, 17].flatMap((down) => [{ x: x + 7, y: y + down, anchor: "start" }, { x: x - 7, y: y + down, anchor: "end" }]);
    if (dx < 0) beside.reverse();
    if (dy > 0) around.reverse();
    return Math.abs(dx) < WIDE / 10 ? [...around, ...beside, ...corners] : [...beside, ...around, ...corners];
  }

  // Puts names where they cover no other one: first those of the moment, then those with operators, which are cut where they
  // would leave the picture. Of the others, a name for which there is no room is left out. The peer shows all under the pointer.
  name(wanted) {
    const taken = this.replay.peers.map(({ name }) => this.at.get(name)).map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]);
    const free = ([left, top, right, bottom], own) =>
      left > 2 && right < WIDE - 2 && top > 2 && bottom < HIGH - 2 &&
      taken.every((box) => box === own || right < box[0] || left > box[2] || bottom < box[1] || top > box[3]);
    for (const { peer, words, rank } of [...wanted].sort((one, other) => one.rank - other.rank)) {
      const { name } = this.groups.get(peer);
      const at = this.at.get(peer);
      const wide = words.length * LETTER;
      const boxed = this.spots(at).map((spot) => {
        const left = spot.anchor === "start" ? spot.x : spot.anchor === "end" ? spot.x - wide : spot.x - wide / 2;
        return { spot, box: [left, spot.y - 11, left + wide, spot.y + 3] };
      });
      const own = taken.find((box) => box[0] === at[0] - 5 && box[1] === at[1] - 5);
      const found = boxed.find(({ box }) => free(box, own)) ?? (rank < 2 ? roomiest(boxed) : null);
      const shown = found ? cut(words, roomAt(found.spot)) : "";
      name.textContent = shown;
      if (!found) continue;
      taken.push(found.box);
      for (const [key, value] of Object.entries({ x: found.spot.x, y: found.spot.y, "text-anchor": found.spot.anchor })) name.setAttribute(key, value);
    }
  }

  // A name in the directory: its key on the ring, and a line to the peer that is responsible for it.
  // A label that would cover an earlier one is left out.
  key({ name, ring }, taken) {
    const [x, y] = this.onRing(ring, 0.86);
    const group = make("g", { class: "key" });
    const tip = make("title");
    const responsible = make("path", { class: "responsible" });
    const short = name.length > 22 ? `${name.slice(0, 21)}…` : name;
    const label = make("text", { x: x + (x < WIDE / 2 ? 8 : -8), y: y + 4, "text-anchor": x < WIDE / 2 ? "start" : "end" });
    const left = x < WIDE / 2 ? x + 8 : x - 8 - short.length * LETTER;
    const box = [left, y - 8, left + short.length * LETTER, y + 6];
    if (taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3])) {
      label.textContent = short;
      taken.push(box);
    }
    this.keys.set(name, { group, tip, responsible, from: [x, y] });
    group.append(responsible, make("path", { class: "diamond", d: `M${x},${y - 5}l5,5l-5,5l-5,-5z` }), label, tip);
    return group;
  }

  // The lines from the keys to the peers that are responsible for them, which change as peers join, leave and die.
  responsibility(state) {
    const now = [...state.dead, "", ...state.absent].join();
    if (now === this.roots) return;
    this.roots = now;
    for (const key of this.replay.keys) {
      const shown = this.keys.get(key.name);
      if (!shown) continue;
      const root = rootOf(key, this.replay.peers, state);
      shown.group.dataset.root = root;
      shown.tip.textContent = `key of ${key.name}: ${root} is responsible for it`;
      shown.responsible.setAttribute("d", line([shown.from, this.at.get(root)]));
    }
  }

  show(kind, moment, state) {
    if (kind !== this.kind) this.arrange(kind);
    this.responsibility(state);
    const here = new Set(moment ? [moment.sender, moment.to] : []);
    const wanted = [];
    for (const [peer, { group, name, tip, about, few }] of this.groups) {
      const parts = state.operators.get(peer) ?? [];
      tip.textContent = parts.length ? `${about}\nhas ${parts.join(", ")}` : about;
      group.classList.toggle("absent", state.absent.has(peer));
      if (state.absent.has(peer)) continue;
      const shown = few || here.has(peer) || parts.length > 0 || state.dead.has(peer);
      if (shown) wanted.push({ peer, words: [peer, ...parts].join(" · "), rank: here.has(peer) ? 0 : parts.length || state.dead.has(peer) ? 1 : 2 });
      else name.textContent = "";
      const kinds = ["peer", here.has(peer) && "here", parts.length && "busy", state.dead.has(peer) && "dead"];
      group.setAttribute("class", kinds.filter(Boolean).join(" "));
      if (!few && (here.has(peer) || parts.length > 0)) this.front.append(group); // above those that only are there
    }
    this.name(wanted);
    this.drawWays(moment);
    const words = moment ? `${moment.title}${moment.sender && moment.sender !== moment.to ? ` from ${moment.sender}` : ""} at ${moment.to}` : "";
    this.title.textContent = `Peers on the ${kind === "map" ? "map of delays" : "ring"}. ${words}`;
  }

  drawWays(moment) {
    this.ways.replaceChildren();
    this.moving.replaceChildren();
    if (!moment) return;
    const step = this.index.get(moment);
    for (let back = Math.min(TRAIL, step); back > 0; back--) this.way(this.replay.moments[step - back], "past", 0.55 - back * 0.07);
    const passed = moment.path.map(([, peer]) => this.at.get(peer)).filter(Boolean);
    if (passed.length > 1) this.ways.append(make("path", { class: "path", d: line(passed) }));
    moment.path.forEach(([operator, peer], at) => {
      const spot = this.at.get(peer);
      if (!operator || !spot) return;
      const before = moment.path.slice(0, at).filter(([, earlier]) => earlier === peer).length;
      const words = `${at + 1} ${operator}`;
      const half = (words.length * LETTER) / 2 + 4;
      const below = spot[1] + 32 + 13 * before;
      const y = below < HIGH - 4 ? below : spot[1] - 24 - 13 * before;
      const label = make("text", { class: "passed", x: Math.max(half, Math.min(WIDE - half, spot[0])), y, "text-anchor": "middle" });
      label.textContent = words;
      this.ways.append(label);
    });
    const tone = moment.verdicts.some(([each]) => each === "bad") ? "bad" : moment.verdicts.some(([each]) => each === "good") ? "good" : "";
    this.way(moment, `now ${tone}${moment.received || moment.under_way ? "" : " lost"}`, 1);
    this.travel(moment);
    const spot = this.at.get(moment.to);
    if (spot && tone) this.moving.append(make("circle", { class: `ringed ${tone}`, cx: spot[0], cy: spot[1], r: 11 }));
  }

  way({ sender, to }, kind, opacity) {
    const [from, upto] = [this.at.get(sender), this.at.get(to)];
    if (!from || !upto || sender === to) return;
    const angle = Math.atan2(upto[1] - from[1], upto[0] - from[0]);
    const tip = [upto[0] - 9 * Math.cos(angle), upto[1] - 9 * Math.sin(angle)];
    const wings = [-0.42, 0.42].map((turn) => [tip[0] - 10 * Math.cos(angle + turn), tip[1] - 10 * Math.sin(angle + turn)]);
    const group = make("g", { class: `way ${kind}`, opacity });
    group.append(make("path", { class: "line", d: line([from, tip]) }), make("polygon", { class: "tip", points: [tip, ...wings].map((at) => at.map((part) => part.toFixed(1)).join(",")).join(" ") }));
    this.ways.append(group);
  }

  // A dot that travels with the message.
  travel({ sender, to }) {
    const [from, upto] = [this.at.get(sender), this.at.get(to)];
    cancelAnimationFrame(this.frame);
    if (!from || !upto || sender === to || this.quiet.matches) return;
    const dot = make("circle", { class: "dot", r: 5 });
    this.moving.append(dot);
    const began = performance.now();
    const draw = (now) => {
      const share = Math.min((now - began) / TRAVEL, 1);
      const eased = share * (2 - share);
      dot.setAttribute("cx", from[0] + (upto[0] - from[0]) * eased);
      dot.setAttribute("cy", from[1] + (upto[1] - from[1]) * eased);
      if (share < 1 && dot.isConnected) this.frame = requestAnimationFrame(draw);
      else dot.remove();
    };
    draw(began);
  }

  // Peers of a graph that the pointer or the focus is on, in the table.
  highlight(peers) {
    for (const [peer, { group }] of this.groups ?? []) group.classList.toggle("meant", peers.has(peer));
  }
}
