// The plan as text: YAML, which can be edited, and Python, which can be copied.
import { Component } from "preact";
import { words } from "./editor.js";
import { mend } from "./mend.js";

const LINE = 18; // height of a line, pixels
const PAUSE = 700; // milliseconds without a key after which the text is committed

export class YamlPane extends Component {
  constructor(props) {
    super(props);
    const { yaml = "" } = props.editor.document;
    this.state = { text: yaml, from: yaml, version: props.editor.edits.base.version };
    this.joined = false; // whether a part of this typing was committed already
  }

  static getDerivedStateFromProps({ editor }, { text, from }) {
    const { yaml = "" } = editor.document;
    const { version } = editor.edits.base; // the typed text is based on the version at which typing began
    if (editor.rejected !== null) return { text: editor.rejected, from: yaml, version };
    if (text !== from && text !== yaml) return null;
    return { text: yaml, from: yaml, version };
  }

  componentDidUpdate() {
    const { editor } = this.props;
    editor.rejected = null;
    const own = editor.open;
    if (own && own.id !== this.seen && own.line) {
      const top = (own.line - 1) * LINE;
      const { scrollTop, clientHeight } = this.area;
      if (top < scrollTop || top > scrollTop + clientHeight - 3 * LINE) this.area.scrollTop = Math.max(0, top - 3 * LINE);
    }
    this.seen = own?.id;
    if (editor.wantsFocus?.line === undefined) return;
    const line = editor.wantsFocus.line;
    editor.wantsFocus = null;
    this.goTo(line);
  }

  componentWillUnmount() {
    this.commit();
  }

  commit() {
    clearTimeout(this.timer);
    const { text, from, version } = this.state;
    if (text === from) return;
    this.setState({ from: text });
    this.props.editor.setText(text, version, this.joined);
    this.joined = true;
  }

  typed = (event) => {
    clearTimeout(this.timer);
    this.setState({ text: event.target.value });
    this.timer = setTimeout(() => this.commit(), PAUSE);
  };

  pressed = (event) => {
    const { target } = event;
    if (event.key === "Escape") {
      this.props.editor.wantsFocus = { node: this.props.editor.current };
      this.commit();
      this.props.editor.changed();
    } else if (event.key === "Enter") {
      const before = target.value.slice(0, target.selectionStart);
      const indent = /[^\n]*$/.exec(before)[0].match(/^ */)[0] + (/:\s*$/.test(before) ? "  " : "");
      target.setRangeText(`\n${indent}`, target.selectionStart, target.selectionEnd, "end");
      this.typed(event);
    } else return;
    event.preventDefault();
  };

  goTo(line) {
    const lines = this.state.text.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    this.area.scrollTop = Math.max(0, (line - 4) * LINE);
  }

  render({ editor }) {
    const { text } = this.state;
    const count = text.split("\n").length;
    const wrong = (editor.document.problems ?? []).filter(({ line }) => line);
    const lines = new Set(wrong.map(({ line }) => line));
    const { line: from = 0, endLine: to = from } = editor.open ?? {};
    const kind = (line) => [lines.has(line) && "bad", from && line >= from && line <= to && "own"].filter(Boolean).join(" ");
    return (
      <div class="yaml">
        <div class="code">
          <pre class="gutter" aria-hidden="true" ref={(element) => (this.gutter = element)}>
            {Array.from({ length: count }, (_, index) => (
              <span key={index} class={kind(index + 1)}>{`${lines.has(index + 1) ? "▲" : ""}${index + 1}\n`}</span>
            ))}
          </pre>
          <textarea
            ref={(element) => (this.area = element)}
            aria-label="plan as YAML"
            aria-invalid={wrong.length > 0}
            wrap="off"
            spellcheck={false}
            autocapitalize="off"
            value={text}
            onInput={this.typed}
            onKeyDown={this.pressed}
            onFocus={() => (this.joined = false)}
            onBlur={() => this.commit()}
            onScroll={(event) => (this.gutter.scrollTop = event.target.scrollTop)}
          />
        </div>
        <ul class="errors" hidden={!wrong.length}>
          {wrong.map((problem, index) => (
            <li key={index}>
              <button type="button" onClick={() => this.goTo(problem.line)}>
                line {problem.line}
              </button>{" "}
              {[problem.operator, problem.field].filter(Boolean).join(", ")}: {words(problem)}
              {problem.nearest && (
                <button type="button" class="mend" onClick={() => mend(editor, problem)}>
                  did you mean <b>{problem.nearest}</b>?
                </button>
              )}
            </li>
          ))}
        </ul>
      </div>
    );
  }
}

export function PythonPane({ editor }) {
  const { python } = editor.document;
  const late = editor.edits.pending.length > 0;
  return (
    <div class="python">
      {python ? (
        <pre class={late ? "late" : ""} tabindex={0} aria-label="plan as Python">
          {python}
        </pre>
      ) : (
        <p class="about">{late ? "Not checked yet." : "A plan with problems has no Python yet."}</p>
      )}
    </div>
  );
}
