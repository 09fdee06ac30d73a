// The palette: kinds of operators by group. A click adds an operator between the selected one and its readers, with Shift beside
// these; a drag puts it on a line.
import { Component } from "preact";

const DRAG_DISTANCE = 5; // pixels from which on a press is a drag

// Follows a press at an element. `drag(event, dropped)` is called while the element is dragged, and at the end with whether it
// was dropped. `held` is called with whether the press was a drag, before the click that ends it.
export function pressed(event, drag, held) {
  const start = [event.clientX, event.clientY];
  let dragging = false;
  const move = (moved) => {
    dragging ||= Math.hypot(moved.clientX - start[0], moved.clientY - start[1]) > DRAG_DISTANCE;
    if (dragging) drag(moved);
  };
  const end = (ended) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
    held(dragging);
    if (dragging) drag(ended, ended.type === "pointerup");
    setTimeout(() => held(false)); // after the click
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
}

export class Palette extends Component {
  constructor(props) {
    super(props);
    this.state = { wanted: "", chosen: 0 };
  }

  componentDidUpdate() {
    const { editor } = this.props;
    if (!editor.wantsFocus?.palette) return;
    editor.wantsFocus = null;
    this.search.focus();
    this.search.select();
  }

  groups() {
    const { wanted } = this.state;
    const letters = wanted.trim().toLowerCase();
    const groups = new Map();
    for (const kind of this.props.editor.catalogue.kinds) {
      if (letters && !kind.kind.toLowerCase().includes(letters) && !(kind.help ?? "").toLowerCase().includes(letters)) continue;
      const group = kind.group || "operators";
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(kind);
    }
    if (letters) for (const kinds of groups.values()) kinds.sort((one, two) => two.kind.startsWith(letters) - one.kind.startsWith(letters));
    return groups;
  }

  // Kinds in the order in which Enter takes them: first those whose name begins with the typed letters.
  found() {
    const letters = this.state.wanted.trim().toLowerCase();
    const all = [...this.groups().values()].flat();
    const rank = ({ kind }) => (kind.startsWith(letters) ? 0 : kind.includes(letters) ? 1 : 2);
    return letters ? all.sort((one, two) => rank(one) - rank(two)) : all;
  }

  typed = (event) => {
    const { editor } = this.props;
    const found = this.found();
    if (event.key === "Enter" && found.length) {
      const { kind } = found[Math.min(this.state.chosen, found.length - 1)];
      this.setState({ wanted: "", chosen: 0 });
      editor.add(kind, { beside: event.shiftKey });
    } else if (event.key === "Escape") {
      this.setState({ wanted: "", chosen: 0 });
      editor.wantsFocus = { node: editor.current };
      editor.changed();
    } else if (event.key === "ArrowRight" || event.key === "ArrowDown") this.choose(1, found, event);
    else if (event.key === "ArrowLeft" || event.key === "ArrowUp") this.choose(-1, found, event);
    else return;
    event.preventDefault();
  };

  choose(step, found, event) {
    const { wanted } = this.state;
    if (wanted && event.key.match(/Left|Right/) && this.search.selectionStart !== wanted.length) return;
    const chosen = (this.state.chosen + step + found.length) % Math.max(found.length, 1);
    this.setState({ chosen });
    if (found[chosen]) this.props.editor.say(`${found[chosen].kind}. ${found[chosen].help ?? ""}`);
  }

  press = (event, kind) => {
    if (event.button > 0) return;
    const { drag, editor } = this.props;
    const drop = (place) => (place.line ? editor.add(kind, { between: place.line }) : editor.add(kind, { between: null, after: place.node ?? null }));
    pressed(event, (...moved) => drag({ words: kind, drop }, ...moved), (dragged) => (this.dragged = dragged));
  };

  render({ editor }) {
    const { wanted, chosen } = this.state;
    const groups = this.groups();
    const found = this.found();
    const active = this.search?.getRootNode().activeElement === this.search || wanted;
    return (
      <nav class="palette" aria-label="palette of operators">
        <label class="search">
          <span class="glyph" aria-hidden="true">+</span>
          <input
            ref={(element) => (this.search = element)}
            type="text"
            value={wanted}
            placeholder="add operator"
            aria-label="add operator: type a few letters, Enter adds"
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => this.setState({ wanted: event.target.value, chosen: 0 })}
            onKeyDown={this.typed}
            onFocus={() => this.forceUpdate()}
            onBlur={() => this.setState({ wanted: "", chosen: 0 })}
          />
        </label>
        {[...groups].map(([group, kinds]) => (
          <span class="group" role="group" aria-label={group} key={group}>
            <span class="heading" aria-hidden="true">
              {group}
            </span>
            {kinds.map((kind) => (
              <button
                type="button"
                key={kind.kind}
                data-kind={kind.kind}
                title={`${kind.help ?? ""}\nClick: behind the selected operator, before its readers. Shift and click: beside its readers. Drag: onto a line.`}
                class={active && found[chosen] === kind ? "chosen" : ""}
                onPointerDown={(event) => this.press(event, kind.kind)}
                onClick={(event) => this.dragged || editor.add(kind.kind, { beside: event.shiftKey })}
              >
                {kind.kind}
              </button>
            ))}
          </span>
        ))}
        {!found.length && <span class="none">no kind of operator has these letters</span>}
      </nav>
    );
  }
}
