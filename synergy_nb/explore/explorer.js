// An explorer: controls, a picture that the kernel draws, and numbers. The page sends the values of the controls and
// shows the picture that comes back. It sends the next values only after the answer to the last ones. Operators in a
// picture can be dragged from one place to another.
const WAIT = 1500; // milliseconds until the page no longer waits for an answer
const LATE = 400; // milliseconds without an answer after which the page says that it is being computed
const EVERY = 1000; // milliseconds between two texts of how long it has taken
const LONG = 2; // seconds after which the page says why it takes so long
const SILENT = 10; // seconds without an answer after which the page says that there is none

function make(tag, kind, words = "", attributes = {}) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (words) element.textContent = words;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

export default {
  render({ model, el }) {
    el.classList.add("synergy-room");
    const root = make("div", "synergy-explorer");
    // JupyterLab's own keys would work on the cell, and arrow keys are for sliders; its rules match the element with the focus.
    root.addEventListener("focusin", ({ target }) => target.setAttribute("data-lm-suppress-shortcuts", "true"), true);
    root.addEventListener("keydown", (event) => event.stopPropagation());
    const head = make("h3", "", model.get("title"));
    const equation = make("div", "equation");
    equation.innerHTML = model.get("equation");
    const controls = make("div", "controls");
    const picture = make("div", "picture");
    const numbers = make("dl", "numbers");
    const sentence = make("p", "sentence", "", { "aria-live": "polite" });
    const working = make("p", "working", "", { role: "status" });
    working.hidden = true;
    root.append(head, equation, controls, working, picture, numbers, sentence);
    el.append(root);

    // What is being computed, and since when, until the kernel has answered.
    const since = new Map();
    function tell() {
      const now = Date.now();
      const told = [...since].filter(([what, { began }]) => what || now - began >= LATE);
      working.hidden = !told.length;
      working.textContent = told
        .map(([what, { began, answered }]) => {
          const seconds = Math.floor((now - began) / 1000);
          if (!answered && seconds >= SILENT) return `No answer for ${seconds} s: the kernel is gone, was restarted, or is busy.`;
          const words = `${what ? `Computing: ${what}` : "Computing the picture"}${seconds ? `, ${seconds} s` : ""}…`;
          return what && seconds >= LONG && model.get("slow") ? `${words} ${model.get("slow")}` : words;
        })
        .join(" ");
    }
    const ticking = setInterval(tell, EVERY);
    function begin(what) {
      since.set(what, { began: Date.now() });
      tell();
    }
    function end(what) {
      since.delete(what);
      tell();
    }

    let waiting = null;
    let next = null;
    function send(values) {
      next = { ...(next ?? model.get("values")), ...values };
      if (waiting !== null) return;
      const sent = next;
      next = null;
      waiting = setTimeout(answered, WAIT);
      if (!since.has("")) begin("");
      setTimeout(tell, LATE);
      model.set("values", sent);
      for (const name of linked.keys()) if (model.get(name) !== sent[name]) model.set(name, sent[name]);
      model.save_changes();
    }
    function answered() {
      clearTimeout(waiting);
      waiting = null;
      if (next) send({});
    }

    // What another widget has set as the trait of a control, by a link in the page.
    const linked = new Map();
    const follow = (name) => {
      const value = model.get(name);
      if (value !== undefined && value !== null && value !== (next ?? model.get("values"))[name]) send({ [name]: value });
    };
    const shown = new Map();
    for (const control of model.get("controls")) {
      if (model.get(control.name) !== undefined && model.get(control.name) !== null) {
        linked.set(control.name, () => follow(control.name));
        model.on(`change:${control.name}`, linked.get(control.name));
      }
      const line = make("label", "control");
      const name = make("span", "name", control.label);
      let input;
      if (control.kind === "choice") {
        input = make("select");
        for (const option of control.options) input.append(make("option", "", option, { value: option }));
        input.addEventListener("change", () => send({ [control.name]: input.value }));
        line.append(name, input);
      } else {
        const { low, high, step } = control;
        input = make("input", "", "", { type: "range", min: low, max: high, step });
        const value = make("output");
        input.addEventListener("input", () => {
          value.textContent = `${input.value}${control.unit}`;
          send({ [control.name]: Number(input.value) });
        });
        line.append(name, input, value);
      }
      input.setAttribute("aria-label", control.label);
      input.dataset.of = control.name;
      shown.set(control.name, { control, input });
      controls.append(line);
    }
    const buttons = make("div", "buttons");
    for (const words of model.get("buttons")) {
      const button = make("button", "", words, { type: "button" });
      button.dataset.of = words;
      button.addEventListener("click", () => {
        if (since.has(words)) return; // it is being computed
        begin(words);
        button.setAttribute("aria-busy", "true");
        model.send({ kind: "press", button: words });
      });
      buttons.append(button);
    }
    if (buttons.children.length) controls.append(buttons);

    function draw() {
      picture.innerHTML = model.get("picture");
      numbers.replaceChildren();
      for (const [name, value] of model.get("numbers")) {
        const pair = make("div");
        pair.append(make("dt", "", name), make("dd", "", value));
        numbers.append(pair);
      }
      sentence.textContent = model.get("sentence");
      const values = model.get("values");
      for (const [name, { control, input }] of shown) {
        if (input.getRootNode().activeElement === input && waiting !== null) continue;
        input.value = String(values[name]);
        const output = input.nextElementSibling;
        if (output) output.textContent = `${values[name]}${control.unit}`;
      }
    }
    function onAnswer() {
      end("");
      draw();
      answered();
    }
    function onMessage(content) {
      if (content.kind === "pressing" && since.has(content.button)) since.get(content.button).answered = true;
      if (content.kind !== "pressed") return;
      end(content.button);
      for (const button of buttons.children) if (button.dataset.of === content.button) button.removeAttribute("aria-busy");
      if (content.error) sentence.textContent = content.error;
    }

    // Dragging: an element with data-part is dropped on an element with data-place.
    let held = null;
    const placeBelow = (event) =>
      document.elementsFromPoint(event.clientX, event.clientY).find((each) => each.dataset?.place !== undefined && picture.contains(each));
    picture.addEventListener("pointerdown", (event) => {
      const part = event.target.closest("[data-part]");
      if (!part) return;
      held = { part, x: event.clientX, y: event.clientY };
      picture.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    picture.addEventListener("pointermove", (event) => {
      if (!held) return;
      const scale = held.part.ownerSVGElement.viewBox.baseVal.width / held.part.ownerSVGElement.clientWidth || 1;
      held.part.setAttribute("transform", `translate(${(event.clientX - held.x) * scale},${(event.clientY - held.y) * scale})`);
    });
    picture.addEventListener("pointerup", (event) => {
      if (!held) return;
      const { part } = held;
      held = null;
      part.removeAttribute("transform");
      const place = placeBelow(event);
      if (place) send({ [part.dataset.part]: place.dataset.place });
    });
    picture.addEventListener("pointercancel", () => {
      held?.part.removeAttribute("transform");
      held = null;
    });

    model.on("change:drawings", onAnswer);
    model.on("msg:custom", onMessage);
    draw();
    // The still picture is hidden wherever the live one is on the page.
    const hiding = make("style", "", `[data-synergy-last="${model.get("_still")}"] { display: none; }`);
    document.head.append(hiding);
    return () => {
      hiding.remove();
      clearTimeout(waiting);
      clearInterval(ticking);
      model.off("change:drawings", onAnswer);
      for (const [name, moved] of linked) model.off(`change:${name}`, moved);
      model.off("msg:custom", onMessage);
    };
  },
};
