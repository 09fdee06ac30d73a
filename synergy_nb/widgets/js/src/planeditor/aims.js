// Aiming by keyboard: arrows choose the port to which an operator is connected, or the line to which operators are moved.
import { chainOf, linesFor } from "./moving.js";

// Key `c`: choose among the ports to which the operator can be connected.
export function startConnection(editor, from) {
  const source = editor.operator(from);
  if (!source || !editor.hasOutput(source)) return editor.tell("bad", `${from} has no output.`);
  const targets = editor.document.operators
    .filter(({ id }) => editor.canConnect(from, id))
    .flatMap((target) => editor.portsOf(target).map((name, port) => ({ id: target.id, port, name, taken: target.inputs[port] ?? null })))
    .filter(({ taken, port, id }) => taken !== from && port <= editor.operator(id).inputs.length);
  if (!targets.length) return editor.tell("bad", `There is nothing that ${from} could be connected to.`);
  const words = ({ id, port, name, taken }) => {
    const which = targets.filter((each) => each.id === id).length > 1 ? `, ${name || `input ${port + 1}`}` : "";
    return `To ${id}${which}${taken ? `, instead of ${taken}` : ""}`;
  };
  const finish = ({ id, port }) => {
    editor.connect(from, id, port);
    editor.wantsFocus = { node: from };
  };
  const free = targets.findIndex(({ taken }) => taken === null);
  editor.aiming = { from, targets, index: Math.max(free, 0), words, finish };
  say(editor, "Connect. Arrows choose, Enter connects, Escape does not. ");
}

// Key `m`: choose among the lines to which the operator can be moved, with all that are selected.
export function startMove(editor, id) {
  const chain = chainOf(editor.document, editor.kinds, editor.movedWith(id));
  if (typeof chain === "string") return editor.tell("bad", chain);
  const lines = linesFor(editor.document, chain);
  if (!lines.length) return editor.tell("bad", "There is no other line.");
  editor.aiming = {
    from: chain[0].id,
    moves: true,
    targets: lines.map((line) => ({ ...line, id: line.to })),
    index: 0,
    words: ({ from, to }) => `Between ${from} and ${to}`,
    finish: (line) => editor.move(chain.map((each) => each.id), line),
  };
  editor.wantsFocus = { node: chain[0].id };
  say(editor, "Move. Arrows choose the line, Enter moves, Escape does not. ");
}

export function nextAim(editor, step) {
  const { targets, index } = editor.aiming;
  editor.aiming = { ...editor.aiming, index: (index + step + targets.length) % targets.length };
  say(editor);
}

function say(editor, before = "") {
  const { targets, index, words } = editor.aiming;
  editor.canvas?.reveal(targets[index].id);
  editor.say(`${before}${words(targets[index])}: ${index + 1} of ${targets.length}.`);
}

export function takeAim(editor) {
  const { targets, index, finish } = editor.aiming;
  editor.aiming = null;
  finish(targets[index]);
  editor.changed();
}

export function dropAim(editor) {
  const { moves } = editor.aiming;
  editor.aiming = null;
  editor.say(moves ? "Not moved." : "Not connected.");
}
