// A text field with a list of names below it. An empty field lists all names, otherwise those that begin with the letters at
// the cursor, or contain them. Up and Down choose, and Enter takes the chosen name. Enter, Tab and leaving the field commit
// its text. `clears`: the field is for the next of several names, so Tab commits one and stays, until the field is empty.
// `tabbed(text)` returns whether whoever has the field moves the focus at Tab.
import { Component } from "preact";

const MOST_NAMES = 8; // largest number of listed names
const WORD = /[\p{L}_][\p{L}\p{N}_]*$/u;
let fields = 0;

export class Combo extends Component {
  constructor(props) {
    super(props);
    this.id = `combo-${++fields}`;
    this.state = { text: props.value, from: props.value, seen: props.value, open: false, chosen: -1 };
  }

  // A new value of the document is shown, unless somebody is typing another one.
  static getDerivedStateFromProps({ value }, { text, from, seen }) {
    if (value === seen) return null;
    return { seen: value, from: value, text: text === from ? value : text };
  }

  // If the field disappears while somebody types in it, the text is committed.
  componentWillUnmount() {
    const { text, from } = this.state;
    if (text !== from) this.props.commit(text);
  }

  commit() {
    const { text, from } = this.state;
    this.setState({ open: false, chosen: -1 });
    if (text !== from) {
      this.setState({ from: text });
      this.props.commit(text);
    }
    if (this.props.clears) this.setState({ text: "", from: "" });
  }

  // The letters at the cursor, and the names that contain them.
  offers(text = this.state.text) {
    const { names = [], words } = this.props;
    const cursor = this.input?.selectionStart ?? text.length;
    const before = words ? (WORD.exec(text.slice(0, cursor))?.[0] ?? "") : text.trim();
    if (words && /^\s*$/.test(before) && text.trim() !== "") return { before, names: [] };
    const letters = before.toLowerCase();
    const own = (name) => name.toLowerCase();
    const fitting = names.filter(({ name }) => own(name).includes(letters) && !(own(name) === letters));
    fitting.sort((one, two) => own(two.name).startsWith(letters) - own(one.name).startsWith(letters));
    return { before, names: fitting.slice(0, MOST_NAMES) };
  }

  take(name) {
    const { text } = this.state;
    const { words } = this.props;
    if (!words) {
      this.setState({ text: name, open: false, chosen: -1 }, () => this.commit());
      return;
    }
    const cursor = this.input.selectionStart;
    const { before } = this.offers();
    const start = cursor - before.length;
    const next = text.slice(0, start) + name + text.slice(cursor);
    const at = start + name.length - (name.endsWith(")") && !name.endsWith("(*)") ? 1 : 0);
    this.setState({ text: next, open: false, chosen: -1 }, () => this.input.setSelectionRange(at, at));
  }

  pressed = (event) => {
    const { open, chosen, text, from } = this.state;
    const { names } = this.offers();
    const listed = open && names.length > 0;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!names.length || this.props.lines > 1) return;
      const step = event.key === "ArrowDown" ? 1 : -1;
      const next = listed ? (chosen + step + names.length + (chosen < 0 && step < 0 ? 1 : 0)) % names.length : 0;
      this.setState({ open: true, chosen: next });
      event.preventDefault();
    } else if (event.key === "Enter" && !event.shiftKey) {
      if (listed && chosen >= 0) this.take(names[chosen].name);
      else this.commit();
      if (!(listed && chosen >= 0 && this.props.words)) this.props.entered?.();
      event.preventDefault();
    } else if (event.key === "Tab" && listed && chosen >= 0) {
      this.take(names[chosen].name);
      if (this.props.words || (this.props.clears && !event.shiftKey)) event.preventDefault();
    } else if (event.key === "Tab" && !event.shiftKey && this.props.clears && text.trim()) {
      this.commit(); // the field stays, for the next one
      event.preventDefault();
    } else if (event.key === "Tab" && !event.shiftKey && this.props.tabbed?.(text)) {
      this.commit();
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (!listed && text === from) return;
      this.setState({ open: false, chosen: -1, text: listed ? text : from });
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === "Backspace" && text === "") this.props.emptied?.(event);
  };

  render({ label, described, placeholder, wrong, lines = 1, name, disabled }) {
    const { text, open, chosen } = this.state;
    const { names } = open ? this.offers() : { names: [] };
    const Tag = lines > 1 ? "textarea" : "input";
    const listed = names.length > 0;
    return (
      <span class="combo">
        <Tag
          ref={(element) => (this.input = element)}
          class={wrong ? "wrong" : ""}
          data-field={name}
          rows={lines > 1 ? lines : undefined}
          type={lines > 1 ? undefined : "text"}
          role="combobox"
          aria-label={label}
          aria-invalid={Boolean(wrong)}
          aria-describedby={described}
          aria-expanded={listed}
          aria-controls={`${this.id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={listed && chosen >= 0 ? `${this.id}-${chosen}` : undefined}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          placeholder={placeholder}
          disabled={disabled}
          value={text}
          onInput={(event) => this.setState({ text: event.target.value, open: true, chosen: -1 })}
          onClick={() => this.setState({ open: true })}
          onKeyDown={this.pressed}
          onBlur={() => this.commit()}
        />
        {listed && (
          <ul class="names" role="listbox" id={`${this.id}-list`} aria-label={`names for ${label}`}>
            {names.map((each, index) => (
              <li
                key={each.name}
                id={`${this.id}-${index}`}
                role="option"
                aria-selected={index === chosen}
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => this.take(each.name)}
              >
                <span>{each.name}</span>
                {each.about && <small>{each.about}</small>}
              </li>
            ))}
          </ul>
        )}
      </span>
    );
  }
}
