// What was edited in this browser page in kernels that have ended: a kernel that is restarted knows nothing of it, and a cell
// that runs again would show the plan without the edits.
const texts = (globalThis[Symbol.for("synergy_nb edited plans")] ??= new Map()); // what editors were opened with to their texts

// Keeps the text of an editor, once it was edited.
export function keepText(model) {
  const [opened, { yaml, version }] = [model.get("opened"), model.get("document")];
  if (opened && version > 1) texts.set(opened, { yaml, of: model.get("_still") });
}

// The text of an earlier editor that was opened with the same, if this one has another text and nobody has edited it yet.
export function earlierText(model) {
  const [known, { yaml, version }] = [texts.get(model.get("opened")), model.get("document")];
  return known && known.of !== model.get("_still") && version === 1 && known.yaml !== yaml ? known.yaml : null;
}
