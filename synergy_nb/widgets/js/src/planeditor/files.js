// The file picker of a source: folders and files of the kernel's machine, and the header of the file that is taken.
import { Component } from "preact";
import { words } from "./editor.js";
import * as yaml from "./yaml.js";

// Opens the picker for a source, at the folder of its present file.
export function pickFile(editor, operator) {
  const path = yaml.plain(editor.operator(operator)?.fields.path) || "";
  editor.picking = { operator, listing: null, error: "" };
  editor.sample = null;
  openFolder(editor, path.includes("/") ? path.slice(0, path.lastIndexOf("/")) || "/" : "");
}

// Adds a source that reads a file, which is chosen next.
export const addFile = (editor) => pickFile(editor, editor.add("source", { after: null, between: null, fields: { connector: "trace" } }));

export function closePicker(editor) {
  editor.wantsFocus = { node: editor.picking.operator };
  editor.picking = null;
  editor.changed();
}

export function openFolder(editor, folder) {
  const { picking } = editor;
  picking.error = ""; // not with the answer: a path may have been typed and refused before it
  editor.ask({ type: "files", folder }, (answer) => {
    if (editor.picking !== picking) return;
    if (answer.error && picking.listing === null && folder) return openFolder(editor, ""); // the folder of a path that is wrong
    if (answer.error) picking.error = words(answer.error);
    else picking.listing = answer;
    editor.say(answer.error ? picking.error : `${answer.path}: ${answer.folders.length} folders, ${answer.files.length} files.`);
  });
}

export const inFolder = ({ path }, name) => (path === "." ? name : `${path.replace(/\/$/, "")}/${name}`);

// What was found of a file: a path that is wrong is told at its field.
function told(editor, operator, path, { error }) {
  if (!error) return editor.accept(operator, "path");
  editor.refuse(operator, "path", { value: path, message: words(error) }, true);
  editor.tell("bad", words(error));
}

// A path that was typed: of a source whose columns are stated, only whether there is such a file.
export function typedPath(editor, { id, fields }, path) {
  if (!fields.columns) return readHeader(editor, id, path);
  editor.ask({ type: "file", path }, (answer) => told(editor, id, path, answer));
}

// Has the kernel read the beginning of a file, and writes what it finds into the fields of the source, as one gesture.
export function readHeader(editor, operator, path) {
  const { picking } = editor;
  const encoding = yaml.plain(editor.operator(operator)?.fields.encoding ?? "") ?? "";
  editor.ask({ type: "header", path, encoding }, (answer) => {
    if (answer.error) {
      if (picking && editor.picking === picking) {
        picking.error = words(answer.error);
        return editor.say(picking.error);
      }
      return told(editor, operator, path, answer);
    }
    told(editor, operator, path, answer);
    if (editor.picking === picking) editor.picking = null;
    const present = editor.operator(operator);
    if (!present) return;
    const { columns, time, encoding: found } = answer;
    const fixed = !columns.length;
    const wanted = {
      connector: "trace",
      path: yaml.text(answer.path),
      format: yaml.text(answer.format),
      columns: fixed ? null : yaml.mapping(columns),
      encoding: found ? yaml.text(found) : null,
      time: fixed || !time || time === "time" ? null : yaml.text(time),
    };
    const known = new Set(editor.parametersOf({ ...present, fields: { connector: "trace" } }).map(({ name }) => name));
    const foreign = Object.keys(present.fields).filter((name) => !known.has(name) && !editor.isCommon(name));
    const next = { ...Object.fromEntries(foreign.map((name) => [name, null])), ...wanted };
    const changes = Object.entries(next).filter(([field, value]) => (present.fields[field] ?? null) !== value);
    for (const [field] of changes) editor.toDo.filled(operator, field);
    editor.do(`read ${answer.path}`, changes.map(([field, value]) => ({ op: "set", operator, field, value })));
    editor.openForm(operator, fixed || time ? null : "time");
    if (fixed || time) editor.takeSample(operator);
    editor.tell("good", answer.note);
  });
}

export class Picker extends Component {
  componentDidMount() {
    this.focusFirst();
  }
  componentDidUpdate() {
    this.focusFirst();
  }

  // The first entry of a folder that has just been opened, unless a path is being typed.
  focusFirst() {
    const { listing } = this.props.editor.picking;
    if (listing === this.listed) return;
    this.listed = listing;
    const typed = this.root.querySelector("input");
    if (typed.value && typed === this.root.getRootNode().activeElement) return;
    (this.root.querySelector(".entries button") ?? typed).focus();
  }

  pressed = (event) => {
    const { editor } = this.props;
    if (event.key === "Escape") closePicker(editor);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all = [...this.root.querySelectorAll(".entries button")];
      const at = all.indexOf(event.target);
      if (at < 0) return;
      all[Math.max(0, Math.min(all.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))].focus();
    } else if (event.key === "Enter" && event.target.matches("input")) this.take(event.target.value);
    else if (event.key === "Backspace" && !event.target.matches("input") && editor.picking.listing?.parent) openFolder(editor, editor.picking.listing.parent);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  take = (path) => path.trim() && readHeader(this.props.editor, this.props.editor.picking.operator, path.trim());

  render({ editor }) {
    const { operator, listing, error } = editor.picking;
    return (
      <section class="picker" role="dialog" aria-label={`file for ${operator}`} ref={(element) => (this.root = element)} onKeyDown={this.pressed}>
        <header>
          <b>{listing ? (listing.path === "." ? "this folder" : listing.path) : "Reading the folder…"}</b>
          <button type="button" aria-label="close the file picker" onClick={() => closePicker(editor)}>
            ×
          </button>
        </header>
        <input
          type="text"
          class={error ? "wrong" : ""}
          placeholder="path of a file, or choose one below"
          aria-label="path of a file"
          aria-invalid={Boolean(error)}
          aria-describedby={error ? `picker-${editor.edits.copy}-wrong` : undefined}
          spellcheck={false}
          autocomplete="off"
        />
        {error && (
          <p class="bad" id={`picker-${editor.edits.copy}-wrong`}>
            {error}
          </p>
        )}
        {listing && (
          <ul class="entries nowheel">
            {listing.parent && (
              <li>
                <button type="button" onClick={() => openFolder(editor, listing.parent)}>
                  <span aria-hidden="true">↑</span> folder above
                </button>
              </li>
            )}
            {listing.folders.map((name) => (
              <li key={`${name}/`}>
                <button type="button" onClick={() => openFolder(editor, inFolder(listing, name))}>
                  {name}/
                </button>
              </li>
            ))}
            {listing.files.map(([name, size]) => (
              <li key={name}>
                <button type="button" onClick={() => this.take(inFolder(listing, name))}>
                  <b>{name}</b> <small>{size}</small>
                </button>
              </li>
            ))}
            {!listing.files.length && <li class="soft">No file here ends like a trace: .csv, .tsv, .txt, .log, .parquet, also with .gz</li>}
            {listing.note && <li class="soft">{listing.note}</li>}
          </ul>
        )}
      </section>
    );
  }
}
