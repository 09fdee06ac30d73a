// Moving operators to another line. Places on the canvas are automatic, so operators can only move in the graph: a chain of
// operators goes to the line, and its former inputs and readers are connected with each other.
import { mostInputs, operatorOf, readersOf } from "./operations.js";

// The operators as a chain, in which each is read by the next; or a text that says why they are not a chain.
export function chainOf(document, kinds, ids) {
  const all = ids.map((id) => operatorOf(document, id)).filter(Boolean);
  const inside = new Set(all.map(({ id }) => id));
  const firsts = all.filter(({ inputs }) => !inputs.some((id) => inside.has(id)));
  const chain = [];
  for (let next = firsts[0]; next; ) {
    chain.push(next);
    const { id } = next;
    const readers = all.filter(({ inputs }) => inputs.includes(id));
    next = readers.length === 1 && !chain.includes(readers[0]) ? readers[0] : null;
  }
  if (!all.length) return "Nothing is selected.";
  if (firsts.length !== 1 || chain.length < all.length) return "Only operators in a row can be moved to a line.";
  const [first, last] = [chain[0], chain.at(-1)];
  if (!mostInputs(kinds, first.kind)) return `${first.id} reads nothing: it cannot be moved to a line.`;
  if (last.kind === "sink") return `${last.id} has no output: it cannot be moved to a line.`;
  const between = chain.slice(0, -1).find(({ id }) => readersOf(document, id).some((reader) => !inside.has(reader.id)));
  if (between) return `Others read ${between.id}, too: it stays.`;
  return chain;
}

// The lines to which a chain can be moved: all but its own.
export const linesFor = (document, chain) => {
  const inside = new Set(chain.map(({ id }) => id));
  return document.operators
    .filter(({ id }) => !inside.has(id))
    .flatMap(({ id: to, inputs }) => inputs.map((from, port) => ({ from, to, port })))
    .filter(({ from }) => !inside.has(from) && operatorOf(document, from));
};

// The operations by which a chain is moved to a line.
export function moveOperations(document, chain, { from, to, port }) {
  const [first, last] = [chain[0], chain.at(-1)];
  const [before] = first.inputs;
  const closed = readersOf(document, last.id).map((reader) =>
    before === undefined
      ? { op: "disconnect", from: last.id, to: reader.id, port: reader.port }
      : { op: "connect", from: before, to: reader.id, port: reader.port },
  );
  return [
    ...closed.reverse(), // ports of later inputs first, as they move up
    { op: "connect", from, to: first.id, port: 0 },
    { op: "connect", from: last.id, to, port },
  ];
}
