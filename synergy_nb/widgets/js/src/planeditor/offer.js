// What fits at the end of a line that was dropped on the empty canvas: kinds of operators, of which the chosen one is added
// there.
import { Component } from "preact";
import { mostInputs } from "./operations.js";

const WIDTH = 190; // pixels
const GAP = 8;

// `handle` is the port at which the line began: {id, port}, port null for an output. `place` is in pixels of the pane.
export function offer(editor, handle, place) {
  const fits = ({ kind }) => (handle.port === null ? mostInputs(editor.kinds, kind) > 0 : editor.hasOutput({ kind }));
  editor.offered = { ...handle, place, kinds: editor.catalogue.kinds.filter(fits).map(({ kind, help = "" }) => ({ kind, help })) };
  editor.say(`What fits ${handle.port === null ? "behind" : "before"} ${handle.id}: ${editor.offered.kinds.length} kinds of operators.`);
}

export class Offer extends Component {
  constructor(props) {
    super(props);
    this.state = { wanted: "", chosen: 0 };
  }

  componentDidMount() {
    this.input.focus({ preventScroll: true });
  }

  // The chosen kind is seen: only its list scrolls.
  componentDidUpdate() {
    const { list } = this;
    const item = list.children[this.state.chosen];
    if (!item) return;
    const top = item.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + item.offsetHeight - list.clientHeight;
  }

  found() {
    const letters = this.state.wanted.trim().toLowerCase();
    return this.props.editor.offered.kinds.filter(({ kind }) => kind.toLowerCase().includes(letters));
  }

  take(kind) {
    const { editor } = this.props;
    const { id, port } = editor.offered;
    editor.offered = null;
    if (port === null) editor.add(kind, { between: null, after: id, beside: true });
    else editor.addBefore(kind, id, port);
  }

  close(focus = true) {
    const { editor } = this.props;
    if (!editor.offered) return;
    if (focus) editor.wantsFocus = { node: editor.offered.id };
    editor.offered = null;
    editor.changed();
  }

  pressed = (event) => {
    const found = this.found();
    const { chosen } = this.state;
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter") found.length && this.take(found[Math.min(chosen, found.length - 1)].kind);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.setState({ chosen: (chosen + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(found.length, 1) });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  render({ editor }) {
    const { id, place, port } = editor.offered;
    const { wanted, chosen } = this.state;
    const { clientWidth: width = 400, clientHeight: height = 300 } = editor.canvas?.pane ?? {};
    const style = {
      left: `${Math.max(GAP, Math.min(place.x, width - WIDTH - GAP))}px`,
      ...(place.y > height / 2 ? { bottom: `${Math.max(GAP, height - place.y)}px` } : { top: `${Math.max(GAP, place.y)}px` }),
      width: `${WIDTH}px`,
      maxHeight: `${Math.max(height / 2, 140) - GAP}px`,
    };
    const found = this.found();
    const left = (event) => !event.currentTarget.contains(event.relatedTarget) && this.close(false);
    return (
      <section class="offer" style={style} aria-label={`what fits ${port === null ? "behind" : "before"} ${id}`} onKeyDown={this.pressed} onFocusOut={left}>
        <input
          ref={(element) => (this.input = element)}
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls={`offer-${editor.edits.copy}`}
          aria-activedescendant={found[chosen] && `offer-${editor.edits.copy}-${found[chosen].kind}`}
          aria-label="kind of operator: type a few letters, Enter adds"
          placeholder={port === null ? `behind ${id}` : `before ${id}`}
          autocomplete="off"
          spellcheck={false}
          value={wanted}
          onInput={(event) => this.setState({ wanted: event.target.value, chosen: 0 })}
        />
        <ul role="listbox" id={`offer-${editor.edits.copy}`} ref={(element) => (this.list = element)} class="nowheel" aria-label="kinds of operators">
          {found.map(({ kind, help }, index) => (
            <li key={kind} id={`offer-${editor.edits.copy}-${kind}`} role="option" aria-selected={index === chosen} title={help} onMouseDown={(event) => event.preventDefault()} onClick={() => this.take(kind)}>
              {kind}
            </li>
          ))}
        </ul>
      </section>
    );
  }
}
