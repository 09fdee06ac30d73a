// The editor of plans. The kernel holds the document, which is the plan's text, and checks every edit; this page draws it,
// and draws what is done here before the kernel has answered.
import { render } from "preact";
import { Contact } from "./common/contact.js";
import { guard } from "./common/guard.js";
import { App } from "./planeditor/app.js";
import { Ruler } from "./planeditor/describe.js";
import { Editor } from "./planeditor/editor.js";
import { canvasKey } from "./planeditor/keys.js";
import { download, pngOf, svgOf } from "./planeditor/picture.js";
import { Scene } from "./planeditor/scene.js";
import "./planeditor.css";

let copies = 0;

class View {
  constructor({ model, el, signal }) {
    this.model = model;
    this.copy = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}-${++copies}`;
    this.root = document.createElement("section");
    this.root.className = "synergy-editor";
    this.root.setAttribute("aria-label", "plan editor");
    this.root.tabIndex = -1; // a click beside the fields keeps the focus in the editor
    this.root.addEventListener("keydown", (event) => event.target === this.root && canvasKey(this.editor, this.editor.canvas, event));
    guard(this.root);
    el.append(this.root);
    this.frame = 0;
    this.frames = 0;
    this.editor = new Editor(model, this.copy, () => this.draw());
    this.scene = new Scene(this.editor, new Ruler("system-ui, sans-serif"));
    this.listeners = [
      ["change:document", () => this.editor.received()],
      ["change:catalogue", () => {
        this.editor.readCatalogue();
        this.editor.changed();
      }],
      ["change:live", () => this.editor.follow(model.get("live") ?? null)],
      ["msg:custom", (content) => this.editor.reply(content)],
    ];
    this.contact = new Contact(() => model.send({ type: "here" }), (words) => this.editor.silence(words));
    this.listeners.push(...["change", "msg:custom"].map((name) => [name, () => this.contact.news()]));
    for (const [name, listener] of this.listeners) model.on(name, listener);
    signal?.addEventListener("abort", () => this.close());
    this.render(); // in one go with the first attachment of the element
    for (const kind of ["keydown", "pointerdown"]) this.root.addEventListener(kind, () => this.drawWaiting(), { capture: true });
    this.sized = new ResizeObserver(() => this.measure());
    this.sized.observe(this.root);
  }

  // The font is known once the element is in the page.
  measure() {
    const family = getComputedStyle(this.root).fontFamily;
    if (family === this.family) return;
    this.family = family;
    this.scene.ruler = new Ruler(family);
    this.editor.changed();
  }

  // Drawn with the next frame, but at once where the focus is to move: the next key is for what gets it.
  draw() {
    if (this.closed) return;
    if (this.editor?.wantsFocus && !this.rendering) {
      cancelAnimationFrame(this.frame);
      this.frame = 0;
      this.render();
      return;
    }
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.closed) this.render();
    });
  }

  // What waits for a frame is drawn before the next key or click, whose handlers read the values that were drawn: without this,
  // a column that was added within a frame of another one replaced it.
  drawWaiting() {
    if (!this.frame || this.closed || this.rendering) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.render();
  }

  render() {
    const now = performance.now();
    this.frames++;
    const save = (format) => this.save(format);
    const page = this.root.getRootNode(); // a document, or the shadow tree that the host has put the view into
    const held = this.root.contains(page.activeElement);
    this.rendering = true;
    render(<App editor={this.editor} scene={this.scene} now={now} save={save} hint={`hint-${this.copy}`} flow={this.copy} />, this.root);
    this.rendering = false;
    // What had the focus may be gone; it never falls to the notebook, whose keys work on cells.
    if (held && !this.root.contains(page.activeElement)) this.editor.canvas?.focus(this.editor.current);
    if (this.scene.moving(now)) this.draw();
  }

  svg() {
    const { editor, scene } = this;
    const background = getComputedStyle(this.root).backgroundColor;
    return svgOf(editor.canvas.stage, scene.target.size, editor.document.name || "plan", background);
  }

  async save(format) {
    const svg = this.svg();
    const name = `${(this.editor.document.name || "plan").replace(/[^\p{L}\p{N}_-]+/gu, "_")}.${format}`;
    download(format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await pngOf(svg), name);
    this.editor.tell("soft", `Saved ${name}.`);
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    render(null, this.root); // fields that are being typed in commit
    for (const [name, listener] of this.listeners) this.model.off(name, listener);
    this.sized.disconnect();
    this.contact.close();
    cancelAnimationFrame(this.frame);
  }
}

export { View };
export default {
  render(context) {
    const view = new View(context);
    context.el.synergyEditor = view; // read by benchmarks and tests
    return () => view.close();
  },
};
