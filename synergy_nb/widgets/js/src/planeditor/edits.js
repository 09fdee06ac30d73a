// Edits that were made in this page and are not yet in the document that the kernel has sent. Each is drawn at once, and sent
// in order. It ends when a document arrives that contains it. So nobody waits for a busy kernel.
import { applied, touched } from "./operations.js";

const MOST_PAST = 100; // documents before this page's own gestures that are kept, to draw an undo without the kernel

export class Edits {
  // `send` sends a message to the kernel, and throws where there is none; `copy` is an id of this page among all pages of the editor.
  constructor(send, copy, kinds) {
    this.sendMessage = send;
    this.copy = copy;
    this.kinds = kinds;
    this.number = 0;
    this.pending = [];
    this.past = [];
    this.future = [];
    this.base = null;
    this.shown = null;
    this.failed = false; // the kernel could not be reached
  }

  // A document of the kernel has come; those that are older than the last one change nothing.
  document(document) {
    if (this.base && document.version < this.base.version) return;
    this.base = { ...document, operators: kept(this.base?.operators ?? [], document.operators) };
    this.settle();
  }

  settle() {
    this.pending = this.pending.filter(({ version }) => version === null || version > this.base.version);
    this.fold();
  }

  fold() {
    let shown = this.base;
    for (const { change } of this.pending) shown = change(shown);
    this.shown = shown;
    this.unchecked = this.pending.length ? touched(this.base, shown) : new Set();
  }

  send(message) {
    const id = `${this.copy}-${++this.number}`;
    try {
      this.sendMessage({ ...message, id });
      this.failed = false;
    } catch {
      this.failed = true;
    }
    return id;
  }

  // One gesture: operations that are undone together.
  edit(label, operations) {
    this.remember(label);
    const id = this.send({ type: "edit", version: this.base.version, gesture: label, operations });
    this.wait(id, label, (document) => this.labelled(applied(document, operations, this.kinds), label));
    this.pending.at(-1).operations = operations;
    return id;
  }

  // The text was typed, based on the text of `version`; `continues`: it belongs to the gesture before.
  text(label, yaml, version = this.base.version, continues = false) {
    if (!continues) this.remember(label);
    const id = this.send({ type: "text", version, gesture: label, yaml, continues });
    const operations = [{ op: "text", yaml }];
    this.wait(id, label, (document) => this.labelled(applied({ ...document, yaml }, operations, this.kinds), label));
    this.pending.at(-1).yaml = yaml;
    return id;
  }

  template(label, { name, text }) {
    this.remember(label);
    const id = this.send({ type: "template", name });
    this.wait(id, label, (document) => this.labelled(applied(document, [{ op: "text", yaml: text }], this.kinds), label));
    return id;
  }

  // Undo and redo draw the document from before at once, if this page has it.
  undo() {
    return this.turn("undo", this.past, this.future);
  }
  redo() {
    return this.turn("redo", this.future, this.past);
  }
  turn(type, from, to) {
    const label = this.shown[type];
    if (!label) return null;
    const known = from.at(-1)?.label === label ? from.pop() : null;
    if (!known) from.length = 0;
    to.push({ label, document: this.shown });
    const other = type === "undo" ? "redo" : "undo";
    const id = this.send({ type });
    this.wait(id, `${type} ${label}`, (document) =>
      known
        ? {
            ...document,
            ...plan(known.document),
            [type]: from.at(-1)?.label ?? known.document[type],
            [other]: label,
          }
        : document,
    );
    return label;
  }

  remember(label) {
    this.past.push({ label, document: this.shown });
    if (this.past.length > MOST_PAST) this.past.shift();
    this.future = [];
  }

  labelled(document, label) {
    return { ...document, undo: label, redo: "" };
  }

  wait(id, label, change) {
    this.pending.push({ id, label, change, version: null });
    this.shown = change(this.shown);
    this.unchecked = touched(this.base, this.shown);
  }

  // The kernel's answer: the version that contains the edit, or why there is none. Returns the edit, if it is ours.
  answered({ id, version = null, error = null }) {
    const found = this.pending.find((each) => each.id === id);
    if (!found) return null;
    if (version === null || error) this.pending = this.pending.filter((each) => each !== found);
    else found.version = version;
    this.settle();
    return found;
  }
}

// Operators that have not changed stay the same objects, so what was found about them need not be found again.
function kept(before, after) {
  const known = new Map(before.map((each) => [each.id, each]));
  return after.map((each) => (JSON.stringify(known.get(each.id)) === JSON.stringify(each) ? known.get(each.id) : each));
}

const plan = ({ name, qos, operators, columns, yaml }) => ({ name, qos, operators, columns, yaml });
