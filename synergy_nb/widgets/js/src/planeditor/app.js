// The whole view: bar, palette, canvas, side with form and text, and the status line.
import { counted } from "../common/counted.js";
import { Component } from "preact";
import { memo } from "preact/compat";
import { Canvas } from "./canvas.js";
import { addFile, Picker } from "./files.js";
import { Form } from "./form.js";
import { historyKey, KEYS } from "./keys.js";
import { Marks } from "./marks.js";
import { Offer } from "./offer.js";
import { Palette } from "./palette.js";
import { PythonPane, YamlPane } from "./panes.js";
import { Sample } from "./popover.js";

const PANES = [
  ["form", "Form"],
  ["yaml", "YAML"],
  ["python", "Python"],
];

// Parts of the view that do not show the running application: they are drawn again only if something else has changed.
const Settled = memo(({ children }) => children, (one, other) => one.at === other.at);


function Bar({ editor, save }) {
  const { document, catalogue } = editor;
  const wrong = document.problems?.length ?? 0;
  const started = document.operators.length > 0;
  const running = Boolean(document.running);
  const idle = wrong > 0 || !started; // a button that is disabled would lose the focus
  return (
    <header class="bar">
      <h2>{document.name || "plan"}</h2>
      <span class="tools" role="toolbar" aria-label="plan">
        <span class="joined">
          <button type="button" aria-disabled={!document.undo} title={document.undo ? `Undo: ${document.undo} (Ctrl+Z)` : "Nothing to undo"} onClick={() => editor.undo()}>
            Undo
          </button>
          <button type="button" aria-disabled={!document.redo} title={document.redo ? `Redo: ${document.redo} (Ctrl+Y)` : "Nothing to redo"} onClick={() => editor.undo("redo")}>
            Redo
          </button>
        </span>
        <span class="joined" role="group" aria-label="beside the canvas">
          {PANES.map(([name, label]) => (
            <button key={name} type="button" aria-pressed={editor.pane === name} onClick={() => editor.show(editor.pane === name ? "" : name)}>
              {label}
            </button>
          ))}
        </span>
        <span class="joined" role="group" aria-label="canvas">
          <button type="button" aria-pressed={editor.selecting} title="A drag on the canvas selects operators (or Shift and drag)" onClick={() => editor.toggleSelecting()}>
            Select
          </button>
          <button type="button" title="All of the plan (0)" onClick={() => editor.canvas?.fit()}>
            Fit
          </button>
          <button type="button" title="Save the picture as SVG" onClick={() => save("svg")}>
            SVG
          </button>
          <button type="button" title="Save the picture as PNG" onClick={() => save("png")}>
            PNG
          </button>
        </span>
        {document.file && (
          <button type="button" aria-disabled={document.saved} title={document.saved ? `Saved in ${document.file}` : `Save in ${document.isNew ? "the new file " : ""}${document.file} (Ctrl+S)`} onClick={() => document.saved || editor.save()}>
            Save
          </button>
        )}
        <button type="button" aria-pressed={editor.checking} title="Expected rates and loads; on a cluster also what it would cost" onClick={() => editor.check()}>
          Check
        </button>
        {running && (
          <button type="button" onClick={() => editor.stop()}>
            Stop
          </button>
        )}
        {catalogue.cluster && (!running || document.draft) && (
          <button type="button" class="main" aria-disabled={idle} title={wrong ? "A plan with problems cannot run" : "Run this plan"} onClick={() => (!idle ? editor.submit() : started && editor.showProblems())}>
            {running ? "Submit as new" : "Submit"}
          </button>
        )}
      </span>
    </header>
  );
}

function Empty({ editor }) {
  return (
    <div class="empty">
      <p>
        <b>An empty plan.</b> Open a file, take a source from the palette, or begin with a template:
      </p>
      <button type="button" class="main" onClick={() => addFile(editor)}>
        Open a data file…
      </button>
      <div class="templates">
        {editor.catalogue.templates.map((template) => (
          <button type="button" key={template.name} title={template.title} onClick={() => editor.useTemplate(template)}>
            <b>{template.label}</b>
            <small>{template.title}</small>
          </button>
        ))}
      </div>
    </div>
  );
}

function Draft({ document }) {
  const { draft } = document;
  if (!draft) return null;
  const said = [
    [draft.added, "new"],
    [draft.changed, "changed"],
    [draft.removed, "removed"],
    [draft.shared, "shared with what runs"],
  ]
    .filter(([ids]) => ids?.length)
    .map(([ids, words]) => `${ids.length} ${words}`);
  return (
    <p class="draft">
      <b>Draft</b> above what runs{said.length ? `: ${said.join(", ")}` : ""}. It runs when you submit it as new.
    </p>
  );
}

function Earlier({ editor }) {
  if (editor.earlier === null) return null;
  return (
    <p class="draft earlier">
      <b>The kernel was restarted.</b> Your edits of before are not in this plan.{" "}
      <button type="button" onClick={() => editor.takeEarlier()}>
        Take them
      </button>{" "}
      <button type="button" onClick={() => editor.dropEarlier()}>
        Forget them
      </button>
    </p>
  );
}

function Cost({ editor }) {
  const { cost } = editor;
  if (!cost) return null;
  const text = String(cost.error?.message ?? cost.error ?? cost.text ?? "");
  const [first, ...more] = text.split("\n"); // what is admitted is at the operators, too; a refusal is read as a whole
  const whole = !cost.admitted || !more.length;
  return (
    <section class={`cost${cost.error || cost.admitted === false ? " bad" : ""}`} aria-label="what it would cost">
      <button type="button" aria-label="close" onClick={() => editor.dropCost()}>
        ×
      </button>
      {cost.waiting ? <p>Asking the peers what it would cost…</p> : <pre>{whole ? text : first}</pre>}
      {!cost.waiting && !whole && (
        <details>
          <summary>by operator</summary>
          <pre>{more.join("\n")}</pre>
        </details>
      )}
    </section>
  );
}

function Status({ editor }) {
  const { document, edits, note, live } = editor;
  const wrong = document.operators.length || document.readable === false ? (document.problems ?? []) : []; // an empty plan is no mistake
  const late = edits.pending.length;
  const toDo = wrong.filter((each) => editor.toDo.has(each)).length;
  return (
    <footer class="status">
      {wrong.length ? (
        <button type="button" class={wrong.length > toDo ? "bad" : "due"} onClick={() => editor.showProblems()}>
          {wrong.length > toDo ? `▲ ${counted(wrong.length - toDo, "problem")}` : `… ${toDo} to do`}
        </button>
      ) : (
        document.operators.length > 0 && !late && <span class="good">✓ valid</span>
      )}
      <span class="soft">{counted(document.operators.length, "operator")}</span>
      {document.isNew && <span class="soft">new file {document.file}: not written before you save</span>}
      {late > 0 && <span class="late">◌ {counted(late, "change")} not checked yet</span>}
      {live && <span class={live.tone === "bad" ? "bad" : "soft"}>{live.sentence?.toLowerCase().startsWith(live.state) ? live.sentence : [live.state, live.sentence].filter(Boolean).join(": ")}</span>}
      {edits.failed && !editor.silent && <span class="bad">▲ no kernel: run the cell again</span>}
      {editor.silent && <span class="bad">▲ {editor.silent}</span>}
      {editor.aiming && <span class="connecting-to">{editor.said.at(-1)?.words}</span>}
      {note && <span class={`note ${note.tone}`}>{note.words}</span>}
      <button type="button" class="keys" aria-expanded={editor.help} onClick={() => editor.toggleHelp()}>
        Keys
      </button>
    </footer>
  );
}

export class App extends Component {
  constructor(props) {
    super(props);
    this.state = { dropping: null };
  }

  // Something is dragged over the canvas, or was dropped there, by `drop(place)`.
  drag = ({ words, drop }, event, dropped = null) => {
    const place = this.props.editor.canvas?.dropAt(event) ?? null;
    if (dropped === null) return this.setState({ dropping: { words, place, x: event.clientX, y: event.clientY } });
    this.setState({ dropping: null });
    if (dropped && place) drop(place);
  };

  render({ editor, scene, now, save, hint, flow }) {
    const { dropping } = this.state;
    const { document, live, pane } = editor;
    scene.update(now);
    const places = scene.places(now);
    const running = live && Object.keys(live.peers ?? {}).length > 0;
    return (
      <div class={`frame${document.draft ? " drafted" : ""}`} onKeyDown={(event) => event.target.matches("input, textarea, select") || event.defaultPrevented || historyKey(editor, event)}>
        <Settled at={editor.settled}>
          <Bar editor={editor} save={save} />
          <Palette editor={editor} drag={this.drag} />
          <Draft document={document} />
          <Earlier editor={editor} />
        </Settled>
        <div class={`work${pane ? ` with-${pane}` : ""}`}>
          <div class="board">
            <Canvas editor={editor} scene={scene} places={places} dropping={dropping} drag={this.drag} hint={hint} flow={flow} moving={scene.moving(now)} />
            {!document.operators.length && <Empty editor={editor} />}
            {editor.sample && <Sample editor={editor} scene={scene} />}
            {editor.picking && <Picker editor={editor} />}
            {editor.offered && <Offer editor={editor} />}
            <Cost editor={editor} />
            {editor.help && (
              <section class="help" aria-label="keys">
                <button type="button" aria-label="close" onClick={() => editor.toggleHelp()}>
                  ×
                </button>
                <dl>
                  {KEYS.map(([key, words]) => (
                    <div key={key}>
                      <dt>{key}</dt>
                      <dd>{words}</dd>
                    </div>
                  ))}
                </dl>
              </section>
            )}
          </div>
          {pane && (
            <aside class="side" aria-label={PANES.find(([name]) => name === pane)[1]}>
              <Settled at={editor.settled}>
                {pane === "form" && <Form editor={editor} />}
                {pane === "yaml" && <YamlPane editor={editor} />}
                {pane === "python" && <PythonPane editor={editor} />}
              </Settled>
            </aside>
          )}
        </div>
        {running && <Marks live={live} />}
        <Status editor={editor} />
        <div class="announcement" role="log" aria-live="polite">
          {editor.said.map(({ number, words }) => (
            <p key={number}>{words}</p>
          ))}
        </div>
        <p class="announcement" id={hint}>
          Arrows go along the lines. Enter opens the form, slash the palette, c connects, Delete removes, question mark lists all keys.
        </p>
        {dropping && (
          <span class="dragged" aria-hidden="true" style={{ left: `${dropping.x}px`, top: `${dropping.y}px` }}>
            {dropping.words}
          </span>
        )}
      </div>
    );
  }
}
