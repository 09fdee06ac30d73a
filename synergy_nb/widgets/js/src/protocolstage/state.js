// The state after a moment of a replay: peers of operators, dead and absent peers, graphs.
import { seconds } from "../qosview/format.js";

export function stateAt(replay, step) {
  let placed = {};
  const dead = new Set();
  const absent = new Set(); // peers that are not in the ring
  for (const moment of replay.moments.slice(0, step + 1)) {
    if (moment.placed) placed = moment.placed;
    for (const peer of moment.dead) dead.add(peer);
    for (const peer of [...moment.alive, ...moment.joined]) dead.delete(peer);
    for (const peer of moment.left) absent.add(peer);
    for (const peer of moment.joined) absent.delete(peer);
  }
  const operators = new Map(); // peer to its operators
  for (const [operator, peer] of Object.entries(placed)) operators.set(peer, [...(operators.get(peer) ?? []), operator]);
  const graphs = replay.graphs
    .filter((graph) => graph.since <= step)
    .map((graph) => {
      const hasFailed = graph.failed >= 0 && graph.failed <= step; // its set-up; another graph may be chosen then
      return { ...graph, hasFailed, isChosen: !hasFailed && graph.chosen >= 0 && graph.chosen <= step, fresh: graph.since === step };
    })
    .sort((a, b) => b.isChosen - a.isChosen || b.hasFailed - a.hasFailed || (a.phi ?? Infinity) - (b.phi ?? Infinity));
  return { placed, dead, absent, operators, graphs };
}

// The peer that is responsible for a key: the one whose place on the ring is nearest, of those that live in the ring.
export function rootOf(key, peers, { dead, absent }) {
  const away = ({ ring }) => Math.min(Math.abs(ring - key.ring), 1 - Math.abs(ring - key.ring));
  const there = peers.filter(({ name }) => !dead.has(name) && !absent.has(name));
  return there.reduce((best, peer) => (best === null || away(peer) < away(best) ? peer : best), null)?.name ?? key.root;
}

export const wayOf = ({ sender, to }) => (sender && sender !== to ? `${sender} → ${to}` : to);

// The moment in one sentence, for screen readers.
export function announced(step, replay) {
  const moment = replay.moments[step];
  if (!moment) return "";
  const verdicts = moment.verdicts.map(([tone, text]) => (tone === "note" ? text : `${tone}: ${text}`)).join("; ");
  const parts = [`${step + 1} of ${replay.moments.length}`, `${seconds(moment.at)}`, wayOf(moment), moment.title, moment.text, verdicts];
  return `${parts.filter(Boolean).join(", ")}.`;
}
