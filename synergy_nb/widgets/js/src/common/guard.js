// Keys that are typed in a view stay in it; otherwise they work on the cell: arrows fold it, x cuts it, dd deletes it. JupyterLab
// listens on the document in the capturing phase, and its rules match the element with the focus: the attribute has to be there.
// Other hosts listen while the event bubbles.
const GUARD = "data-lm-suppress-shortcuts";

export function guard(root) {
  root.setAttribute(GUARD, "true");
  root.addEventListener("focusin", ({ target }) => target.setAttribute?.(GUARD, "true"), true);
  for (const type of ["keydown", "keyup", "keypress"]) root.addEventListener(type, (event) => event.stopPropagation());
  for (const type of ["copy", "cut", "paste"]) root.addEventListener(type, (event) => event.stopPropagation());
}
