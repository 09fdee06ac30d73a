// Correction of a problem: the wrong name is replaced by the nearest valid one.
import * as yaml from "./yaml.js";

// Replaces the wrong name in its field, wherever it is there.
export function mend(editor, { operator, field, value, nearest }) {
  const [name] = (field ?? "").split(".");
  if (!operator) {
    const own = field.replace(/^qos\./, "");
    return editor.setQos(own, editor.document.qos?.[own]?.replaceAll(value, nearest) ?? nearest);
  }
  const found = editor.operator(operator);
  if (!found) return;
  if (name === "id") return editor.rename(operator, nearest);
  if (name === "input" || name === "inputs") {
    const port = Math.max(found.inputs.indexOf(value), 0);
    return editor.do(`connect ${nearest} to ${operator}`, [{ op: "connect", from: nearest, to: operator, port }]);
  }
  if (found.fields[name] === undefined && found.fields[value] !== undefined)
    return editor.do(`rename ${value} of ${operator}`, [
      { op: "set", operator, field: value, value: null },
      { op: "set", operator, field: nearest, value: found.fields[value] },
    ]);
  const before = found.fields[name] ?? "";
  const word = new RegExp(`(?<![\\w])${value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w])`, "g");
  const after = yaml.plain(before) === value || !word.test(before) ? yaml.text(nearest) : before.replace(word, nearest);
  editor.set(operator, name, after);
}
