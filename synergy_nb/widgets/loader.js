// The only script of a view that a notebook stores. It requests the rest, the bundle, from the kernel, once a page; all views
// of the same version use the bundle that was loaded for the first.
const loaded = (globalThis[Symbol.for("synergy_nb views")] ??= new Map());

// In a row, as an HBox is, a view takes the room that is left: its parts adapt to its width, so it has none of its own. What its
// layout states comes before.
const ROOM = ".synergy-room { flex: 1 1 auto; min-width: min(320px, 100%); }";

// Calls `done` with what was loaded. Messages that arrive before the view exists are collected in `early`.
function load(model, version, early, done) {
  const known = loaded.get(version);
  if (known) {
    done(known);
    return () => {};
  }
  let wait = 1000;
  let timer = null;
  const request = () => {
    model.send({ kind: "bundle" });
    timer = setTimeout(request, wait);
    wait = Math.min(2 * wait, 30000); // a kernel that is busy answers later, and then all questions at once
  };
  const onMessage = (content, buffers) => {
    if (content.kind === "update" || content.kind === "rows") early.push([content, buffers]);
    if (content.kind !== "bundle" || content.version !== version) return;
    clearTimeout(timer);
    if (!loaded.has(version)) {
      const address = URL.createObjectURL(new Blob([content.script], { type: "text/javascript" }));
      loaded.set(version, { module: import(address), style: content.style });
    }
    done(loaded.get(version));
  };
  const stop = () => {
    clearTimeout(timer);
    model.off("msg:custom", onMessage);
  };
  model.on("msg:custom", onMessage);
  request();
  return stop;
}

export default {
  render(context) {
    const { model, el } = context;
    const note = document.createElement("p");
    const hint = setTimeout(() => {
      note.textContent = "This view waits for its kernel. If there is none any more, run the cell again.";
      el.append(note);
    }, 3000);
    // The still picture of the view is hidden wherever the live one is on the page.
    const hiding = document.createElement("style");
    hiding.textContent = ROOM;
    el.classList.add("synergy-room");
    const hide = (name) => {
      if (name) hiding.textContent = `${ROOM} [data-synergy-last="${name}"] { display: none; }`;
      document.head.append(hiding);
    };
    let leave = null;
    let left = false;
    const early = [];
    const stop = load(model, model.get("_version"), early, async ({ module, style }) => {
      const view = (await module).default;
      stop();
      clearTimeout(hint);
      if (left) return;
      const sheet = document.createElement("style");
      sheet.textContent = style;
      el.replaceChildren(sheet);
      leave = view.render({ ...context, early });
      hide(model.get("_still"));
    });
    return () => {
      left = true;
      clearTimeout(hint);
      stop();
      leave?.();
      hiding.remove();
    };
  },
};
