// The picture of the present document: descriptions of operators and lines, and their places. Operators move from their
// places in the picture before to the new ones within a moment, so that the eye can follow.
import { between } from "./geometry.js";
import { aloud, describe, linesOf, portShifts } from "./describe.js";
import { layout } from "./layout.js";

const MOVE = 160; // duration of a movement, milliseconds
// Pixels between two ranks: without labels, with labels, and with labels that say how full a queue is.
const COLUMN = 36;
const COLUMN_LABELLED = 62;
const COLUMN_FULL = 92;

export class Scene {
  constructor(editor, ruler) {
    this.editor = editor;
    this.ruler = ruler;
    this.key = "";
    this.edition = -1;
    this.known = new Map(); // descriptions of operators by id, each with its text: an equal one stays the same object
    this.before = null;
    this.target = null;
    this.since = -Infinity;
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  // Describes and places all operators and lines; `now` is in milliseconds.
  update(now) {
    const { editor, ruler } = this;
    if (editor.edition === this.edition && ruler === this.measured) return;
    this.edition = editor.edition;
    this.measured = ruler;
    const operators = editor.document.operators;
    this.shown = operators.map((operator) => this.same(describe(editor, operator, ruler)));
    this.lines = linesOf(editor);
    this.words = new Map(operators.map((operator, index) => [operator.id, aloud(this.shown[index], operator)]));
    const full = this.lines.some(({ level }) => level === "raised" || level === "high");
    const labelled = this.lines.some(({ label }) => label);
    const sized = this.shown.map(({ id, width, height, room, ports }) => ({
      id,
      width,
      height: height + 2 * room, // ghosts are below, and the ports stay in the middle
      ports: portShifts(ports.length),
    }));
    const column = full && labelled ? COLUMN_FULL : full || labelled ? COLUMN_LABELLED : COLUMN;
    const key = JSON.stringify([column, sized, this.lines.map((line) => line.key)]);
    if (key === this.key) return;
    const first = this.target === null;
    this.before = first ? null : this.places(now);
    this.key = key;
    this.target = layout(sized, this.lines, { column });
    this.shown.forEach(({ id, room, height }) => {
      const place = this.target.nodes.get(id);
      place.y += room;
      place.height = height;
    });
    this.since = first || this.still ? -Infinity : now;
  }

  same(shown) {
    const text = JSON.stringify(shown);
    const known = this.known.get(shown.id);
    if (known?.text === text) return known.shown;
    this.known.set(shown.id, { text, shown });
    return shown;
  }

  moving(now) {
    return now - this.since < MOVE;
  }

  places(now) {
    return between(this.before, this.target, this.moving(now) ? (now - this.since) / MOVE : 1);
  }
}
