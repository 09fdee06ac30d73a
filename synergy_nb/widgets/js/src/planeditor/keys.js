// Keys of the canvas.
import { dropAim, nextAim, startConnection, startMove, takeAim } from "./aims.js";
import { readersOf } from "./operations.js";

export const KEYS = [
  ["→ ←", "along the lines, to readers and inputs"],
  ["↑ ↓", "to the operators above and below"],
  ["Enter", "form of the operator; Escape comes back"],
  ["/", "palette: type a few letters, Enter adds behind the operator, Shift + Enter beside its readers"],
  ["c", "connect: arrows choose the input, Enter connects"],
  ["e", "selects a line to the operator; again the next one"],
  ["Delete", "removes what is selected; its readers read its input"],
  ["F2", "renames"],
  ["s", "sample rows"],
  ["m", "moves what is selected to another line; arrows choose it"],
  ["Shift + arrow", "selects more; Ctrl+A all"],
  ["Ctrl + arrow, Ctrl + Space", "goes on without selecting; selects or deselects the operator"],
  ["Shift + drag", "selects the operators in a rectangle; a drag of operators onto a line moves them"],
  ["Ctrl+C  Ctrl+X  Ctrl+V", "copy, cut and paste as YAML"],
  ["Ctrl+Z  Ctrl+Y", "undo, redo"],
  ["+  −  0", "zoom; all of the plan"],
];

// The operator that is reached from `id` by an arrow.
export function neighbour(document, places, id, arrow) {
  const here = places.get(id);
  if (!here) return document.operators[0]?.id ?? null;
  const height = (other) => Math.abs((places.get(other)?.y ?? 0) - here.y);
  const nearest = (ids) => [...new Set(ids)].filter((other) => places.has(other)).sort((one, two) => height(one) - height(two))[0] ?? null;
  if (arrow === "ArrowRight") return nearest(readersOf(document, id).map((reader) => reader.id));
  if (arrow === "ArrowLeft") return nearest(document.operators.find((each) => each.id === id)?.inputs ?? []);
  const down = arrow === "ArrowDown";
  const beyond = [...places].filter(([other, { y }]) => other !== id && (down ? y > here.y : y < here.y));
  const far = ([, place]) => Math.abs(place.rank - here.rank) * 1000 + Math.abs(place.y - here.y);
  return beyond.sort((one, two) => far(one) - far(two))[0]?.[0] ?? null;
}

export function historyKey(editor, event) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return false;
  const key = event.key.toLowerCase();
  if (key === "z") editor.undo(event.shiftKey ? "redo" : "undo");
  else if (key === "y" && !event.shiftKey) editor.undo("redo");
  else if (key === "s" && editor.document.file) editor.save();
  else return false;
  event.preventDefault();
  return true;
}

export function canvasKey(editor, canvas, event) {
  if (event.defaultPrevented || historyKey(editor, event)) return;
  const { key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) {
    if (event.altKey || editor.aiming) return;
    if (key.toLowerCase() === "a") editor.selectAll();
    else if (key === " " && editor.current !== null) {
      editor.select(editor.current, { more: true });
      editor.saySelection();
    } else if (key.startsWith("Arrow")) {
      const next = editor.current === null ? null : neighbour(editor.document, canvas.props.scene.target.nodes, editor.current, key);
      if (next !== null) editor.goTo(next);
    } else return;
    event.preventDefault();
    return;
  }
  const done = editor.aiming ? aimingKey(editor, key) : plainKey(editor, canvas, event);
  if (done) event.preventDefault();
}

function aimingKey(editor, key) {
  if (key === "ArrowRight" || key === "ArrowDown") nextAim(editor, 1);
  else if (key === "ArrowLeft" || key === "ArrowUp") nextAim(editor, -1);
  else if (key === "Enter" || key === " ") takeAim(editor);
  else if (key === "Escape" || key === "c" || key === "m") dropAim(editor);
  else return key !== "Tab";
  return true;
}

function plainKey(editor, canvas, event) {
  const { key } = event;
  const { document } = editor;
  const current = editor.current ?? document.operators[0]?.id ?? null;
  if (key.startsWith("Arrow")) {
    const places = canvas.props.scene.target.nodes;
    const next = editor.current === null ? current : neighbour(document, places, current, key);
    if (event.shiftKey && !editor.selected.size && current !== null) editor.select(current);
    if (next !== null) editor.select(next, { more: event.shiftKey, focus: true });
    return true;
  }
  switch (key) {
    case "Enter":
    case " ":
      if (editor.line) editor.takeSample(editor.line.from);
      else if (current !== null) editor.openForm(current);
      return true;
    case "/":
    case "a":
      if (!editor.selected.size && !editor.line && current !== null) editor.select(current);
      editor.wantsFocus = { palette: true };
      editor.changed();
      return true;
    case "c":
      if (current !== null) startConnection(editor, current);
      return true;
    case "m":
      if (current !== null) startMove(editor, current);
      return true;
    case "e":
      nextLine(editor, current);
      return true;
    case "Delete":
    case "Backspace":
      editor.remove();
      return true;
    case "F2":
      if (current !== null) editor.openForm(current, "id");
      return true;
    case "s":
      if (current !== null) editor.takeSample(editor.line?.from ?? current);
      return true;
    case "Escape":
      editor.clear();
      return true;
    case "+":
    case "=":
      canvas.zoom(1.2);
      return true;
    case "-":
      canvas.zoom(1 / 1.2);
      return true;
    case "0":
      canvas.fit();
      return true;
    case "?":
      editor.toggleHelp();
      return true;
    default:
      return false;
  }
}

function nextLine(editor, current) {
  const operator = editor.operator(current);
  if (!operator?.inputs.length) return editor.say("There is no line to this operator.");
  const port = editor.line?.to === current ? (editor.line.port + 1) % operator.inputs.length : 0;
  editor.selectLine({ from: operator.inputs[port], to: current, port });
}
