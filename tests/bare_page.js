// A front end for views in a page with nothing else: what anywidget does in a notebook, over a relay to the real
// widget in the test. Bytes travel as {"$bytes": base64}, and are DataViews here as in Jupyter.
const models = new Map();
const outgoing = [];
const stops = new Map();

const toBase64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
const asBytes = (value) =>
  value instanceof ArrayBuffer
    ? new Uint8Array(value)
    : ArrayBuffer.isView(value) && new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
const pack = (key, value) => (asBytes(value) ? { $bytes: toBase64(asBytes(value)) } : value);
const unpack = (key, value) =>
  value?.$bytes === undefined
    ? value
    : new DataView(Uint8Array.from(atob(value.$bytes), (letter) => letter.charCodeAt(0)).buffer);

class Model {
  constructor(id, state) {
    Object.assign(this, { id, state, changed: new Set(), listeners: [] });
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    const values = typeof name === "object" ? name : { [name]: value };
    for (const [key, to] of Object.entries(values)) this.changed.add(key);
    this.take(values);
  }
  take(values) {
    const fresh = Object.keys(values).filter((key) => this.state[key] !== values[key]);
    Object.assign(this.state, values);
    for (const key of fresh) this.emit(`change:${key}`, this, values[key]);
    if (fresh.length) this.emit("change", this);
  }
  save_changes() {
    const state = Object.fromEntries([...this.changed].map((key) => [key, this.state[key]]));
    this.changed.clear();
    if (Object.keys(state).length) outgoing.push({ model: this.id, data: { method: "update", state }, buffers: [] });
  }
  send(content, callbacks, buffers = []) {
    outgoing.push({ model: this.id, data: { method: "custom", content }, buffers });
  }
  emit(event, ...given) {
    for (const { name, callback } of [...this.listeners]) if (name === event) callback(...given);
  }
  // What a view is given: its own listeners on the shared model, which go when it goes.
  seenBy(owner) {
    return {
      get: this.get.bind(this),
      set: this.set.bind(this),
      save_changes: this.save_changes.bind(this),
      send: this.send.bind(this),
      on: (name, callback) => this.listeners.push({ name, callback, owner }),
      off: (name = null, callback = null) => this.forget(owner, name, callback),
      widget_manager: null,
    };
  }
  forget(owner, name = null, callback = null) {
    const meant = (it) => it.owner === owner && [null, it.name].includes(name) && [null, it.callback].includes(callback);
    this.listeners = this.listeners.filter((it) => !meant(it));
  }
  // The module of the view, loaded from the text that the widget sends, and initialised once for the model.
  async load() {
    const address = URL.createObjectURL(new Blob([this.state._esm], { type: "text/javascript" }));
    const { default: given } = await import(address);
    URL.revokeObjectURL(address);
    const view = typeof given === "function" ? await given() : given;
    const style = document.createElement("style");
    style.textContent = this.state._css ?? "";
    document.head.append(style);
    await view.initialize?.({ model: this.seenBy(this), signal: new AbortController().signal });
    return view;
  }
}

globalThis.show = async (id, state, name) => {
  if (!models.has(id)) models.set(id, new Model(id, JSON.parse(state, unpack)));
  const model = models.get(id);
  const view = await (model.loaded ??= model.load());
  const el = document.createElement("div");
  const stopped = new AbortController();
  const cleanup = await view.render?.({ model: model.seenBy(el), el, signal: stopped.signal });
  el.id = name;
  document.body.append(el); // after rendering, as notebooks may: a view has no size before
  stops.set(name, async () => {
    stopped.abort();
    model.forget(el);
    await cleanup?.();
    el.remove();
  });
};

globalThis.hide = (name) => stops.get(name)();

(async () => {
  for (;;) {
    const arrived = await exchange(JSON.stringify(outgoing.splice(0), pack));
    for (const message of arrived) {
      const { model, data, buffers } = JSON.parse(message, unpack);
      if (data.method === "update") models.get(model)?.take(data.state);
      if (data.method === "custom") models.get(model)?.emit("msg:custom", data.content, buffers);
    }
    await new Promise((resume) => setTimeout(resume, 5));
  }
})();
