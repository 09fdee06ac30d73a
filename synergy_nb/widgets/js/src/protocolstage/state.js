// What is known after a moment of a replay.
import { seconds } from "../qosview/format.js";

export function stateAt(replay, step) {
  let placed = {};
  const dead = new Set();
  for (const moment of replay.moments.slice(0, step + 1)) {
    if (moment.placed) placed = moment.placed;
    for (const peer of moment.dead) dead.add(peer);
    for (const peer of moment.alive) dead.delete(peer);
  }
  const operators = new Map(); // peer to its operators
  for (const [operator, peer] of Object.entries(placed)) operators.set(peer, [...(operators.get(peer) ?? []), operator]);
  const graphs = replay.graphs
    .filter((graph) => graph.since <= step)
    .map((graph) => ({ ...graph, isChosen: graph.chosen >= 0 && graph.chosen <= step, fresh: graph.since === step }))
    .sort((a, b) => b.isChosen - a.isChosen || (a.phi ?? Infinity) - (b.phi ?? Infinity));
  return { placed, dead, operators, graphs };
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
