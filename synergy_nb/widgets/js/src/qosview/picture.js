// The plan with the peer of each operator: boxes and lines are drawn once; after that only their states change.
import { put } from "../common/elements.js";
import { colourOf } from "../common/peers.js";

const SVG = "http://www.w3.org/2000/svg";
export const GLYPHS = { waiting: "○", running: "●", shared: "◆", overloaded: "▲", failed: "✕", dead: "⊘", stopped: "■" };

function make(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const text = (kind, x, y) => make("text", { class: kind, x, y });

export class Picture {
  constructor(parent) {
    this.parent = parent;
    this.nodes = new Map();
    this.links = new Map();
    this.direction = null;
  }

  // `plan` has the coordinates for both directions, right and down; the direction that fits the width is drawn.
  show(plan, width) {
    const direction = plan.right.size[0] <= width * 1.15 ? "right" : "down";
    if (plan === this.plan && direction === this.direction) return false;
    Object.assign(this, { plan, direction });
    const { size, boxes, links } = plan[direction];
    const drawing = make("svg", {
      class: "plan",
      viewBox: `0 0 ${size[0]} ${size[1]}`,
      width: size[0],
      height: size[1],
      role: "img",
    });
    this.title = make("title", {});
    drawing.append(this.title);
    this.links.clear();
    for (const [path, head, ofReplica, up, down] of links) {
      const ghost = ofReplica ? " ghost" : "";
      const link = { tip: make("title", {}), group: make("g", { class: "stream" }) };
      link.group.append(link.tip, make("path", { class: `link${ghost}`, d: path }), make("polygon", { class: `head${ghost}`, points: head }));
      this.links.set(`${up} ${down}`, link);
      drawing.append(link.group);
    }
    this.nodes.clear();
    for (const [operator, [x, y, breadth, height]] of Object.entries(boxes)) {
      const node = {
        group: make("g", {}),
        tip: make("title", {}),
        stripe: make("path", { class: "stripe", d: `M${x + 5},${y}h-1a4,4 0 0 0 -4,4v${height - 8}a4,4 0 0 0 4,4h1z` }),
        label: text("label", x + 15, y + 19),
        peer: text("peer", x + 15, y + 36),
        status: text("status", x + 15, y + 52),
        room: Math.floor((breadth - 22) / 5.9), // characters
      };
      node.label.textContent = plan.labels[operator];
      node.group.append(
        node.tip,
        make("rect", { class: "box", x, y, width: breadth, height, rx: 4 }),
        node.stripe,
        node.label,
        node.peer,
        node.status,
      );
      this.nodes.set(operator, node);
      drawing.append(node.group);
    }
    this.parent.replaceChildren(drawing);
    return true;
  }

  // States of components: `parts` by operator, `names` of peers by address; of `streams` between active replicas, by their ends.
  state(parts, names, streams = {}) {
    const texts = [];
    for (const [ends, link] of this.links) {
      link.group.classList.toggle("gone", Boolean(streams[ends]?.gone));
      put(link.tip, streams[ends]?.tip ?? "");
    }
    for (const [operator, node] of this.nodes) {
      const part = parts.get(operator);
      const now = part?.state ?? "waiting";
      const peer = names.get(part?.peer);
      const label = this.plan.labels[operator];
      put(node.label, `${GLYPHS[now]} ${label}`);
      put(node.peer, cut(part?.on ?? "no peer yet", node.room));
      const moving = part?.moving ? cut(part.moving, node.room) : "";
      put(node.status, moving || (now === "running" ? part.rate || "running" : cut(part?.state_text ?? "waiting", node.room)));
      node.group.setAttribute("class", part?.replica_of ? `node ${now} replica` : `node ${now}`);
      node.stripe.style.fill = peer === undefined ? "var(--edge)" : `var(--${colourOf(peer)})`;
      const words = `${operator} on ${part?.on ?? "no peer"}: ${part?.state_text ?? "waiting"}`;
      put(node.tip, part?.tip ? `${words}\n${part.tip}` : words);
      texts.push(words);
    }
    if (this.title) put(this.title, `The plan over its peers. ${texts.join(". ")}.`);
  }
}

const cut = (words, room) => (words.length > room ? `${words.slice(0, room - 1)}…` : words);
