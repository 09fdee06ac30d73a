// The form at the side: the fields of the operator that is selected, or of the plan.
import { Component } from "preact";
import { startMove } from "./aims.js";
import { pickFile, typedPath } from "./files.js";
import { toDoWords } from "./to_do.js";
import * as yaml from "./yaml.js";
import { briefly, words } from "./editor.js";
import { Field, plainDefault } from "./fields.js";
import { Combo } from "./combo.js";
import { mend } from "./mend.js";
import { operatorOf } from "./operations.js";

// Types of parameters whose fields are below their names, as they need the whole width.
const WIDE_TYPES = new Set(["columns", "order", "calls", "over", "expressions", "column types", "destination"]);
const SHOWN_FIELDS = 6; // number of fields of an operator that are not folded away

// The problems of a field, each with a button that writes the nearest valid name.
export function Wrong({ id, problems, editor }) {
  if (!problems.length) return null;
  return (
    <span class="problems" id={id}>
      {problems.map((problem, index) => (
        <span class="problem" key={index}>
          <span class="glyph" aria-hidden="true">
            ▲
          </span>
          <span>{briefly(problem)}</span>
          {problem.nearest && (
            <button type="button" class="mend" onClick={() => mend(editor, problem)}>
              did you mean <b>{problem.nearest}</b>?
            </button>
          )}
        </span>
      ))}
    </span>
  );
}

const isPath = ({ name }) => name === "path";

// The columns that a source states, with their types.
function statedColumns({ fields }) {
  try {
    const found = yaml.read(fields.columns ?? "");
    return found instanceof Map ? Object.fromEntries(found) : {};
  } catch {
    return {};
  }
}

const firstSentence = (text) => /^.*?\.(?=\s|$)/.exec(text.replace(/`/g, ""))?.[0] ?? text;

const sentence = (text) => text && `${text[0].toUpperCase()}${text.slice(1).replace(/`/g, "").replace(/\.$/, "")}.`;

const helpOf = ({ help = "", unit, range, required, default: given }) => {
  const absent = plainDefault({ default: given });
  const known = required || !absent || absent.startsWith("no ") ? "" : `Default: ${absent}`;
  return [help, range, unit && `Unit: ${unit}`, known].map((each) => sentence(each || "")).filter(Boolean).join(" ");
};

function Row({ parameter, value, commit, problems, columns, editor, prefix, told, aside = null }) {
  const all = problems.filter(({ field }) => field === parameter.name || field?.startsWith(`${parameter.name}.`));
  const own = all.filter((each) => !editor.toDo.has(each));
  const toDo = all.length > own.length;
  const id = `${prefix}-${parameter.name}`;
  return (
    <div class={`row${own.length ? " bad" : ""}${WIDE_TYPES.has(parameter.type) ? " wide" : ""}`} data-row={parameter.name} onFocusIn={() => told(parameter)}>
      <span class="label" title={helpOf(parameter)}>
        {parameter.name.replace(/_/g, " ")}
        {parameter.required && <i aria-hidden="true">*</i>}
        {parameter.leads && <span data-leads hidden />}
      </span>
      <Field
        parameter={parameter}
        value={value ?? null}
        commit={commit}
        label={parameter.name.replace(/_/g, " ")}
        described={own.length || toDo ? `${id}-wrong` : undefined}
        wrong={own.length > 0}
        problems={own}
        columns={columns}
        next={() => (editor.wantsFocus = { field: parameter.name })}
      />
      {aside}
      {toDo && !own.length ? (
        <span class="due" id={`${id}-wrong`}>
          to fill in
        </span>
      ) : (
        <Wrong id={`${id}-wrong`} problems={own} editor={editor} />
      )}
    </div>
  );
}

// Names of the fields that are not folded away: those that are stated, needed or wrong, and the first of the others.
function unfolded(parameters, common, fields, problems) {
  const needed = ({ name, required, leads }) =>
    required || leads || fields[name] !== undefined || problems.some(({ field }) => field === name || field?.startsWith(`${name}.`));
  let free = SHOWN_FIELDS - parameters.filter(needed).length;
  return new Set([...parameters.filter((each) => needed(each) || free-- > 0), ...common.filter(needed)].map(({ name }) => name));
}

export class Form extends Component {
  constructor(props) {
    super(props);
    this.state = { told: null, more: false };
  }

  componentDidMount() {
    this.focusWanted();
  }
  componentDidUpdate() {
    this.focusWanted();
  }

  // The fields that are folded away are chosen when the form opens, so that none moves while somebody types in it.
  split(key, parameters, common, fields, problems) {
    if (this.unfolded?.key !== key) this.unfolded = { key, names: unfolded(parameters, common, fields, problems) };
    const { names } = this.unfolded;
    const all = [...parameters, ...common];
    return [all.filter(({ name }) => names.has(name)), all.filter(({ name }) => !names.has(name))];
  }

  focusWanted() {
    const { editor } = this.props;
    const field = editor.wantsFocus?.field;
    if (field === undefined) return;
    editor.wantsFocus = null;
    const all = [...this.root.querySelectorAll("[data-field]")];
    const id = this.root.querySelector("[data-field=id]");
    const empty = all.find((each) => each !== id && !each.value && each.closest("[data-row]")?.querySelector("i, [data-leads]") && !each.closest(".chips")?.querySelector(".chip"));
    const found =
      field === true ? (empty ?? all.find((each) => each !== id && !each.closest(".inputs")) ?? id)
      : field.problem !== undefined ? this.fieldOf(all, field.problem)
      : all.find((each) => each.dataset.field === field);
    found?.focus();
    if (field === "id") found?.select?.();
  }

  // The field of a problem: its own, that of one entry of it, the first of its row, the choice of an input, or what may be missing.
  fieldOf(all, field) {
    const [name] = field.split(".");
    const named = (wanted) => all.find((each) => each.dataset.field === wanted);
    const row = [...this.root.querySelectorAll("[data-row]")].find((each) => each.dataset.row === name);
    const entry = field === name ? null : (named(`${field}=`) ?? named(field)); // its expression, of a pair
    const input = name === "inputs" || name === "input" ? (all.find((each) => each.closest(".inputs") && !each.value) ?? named("input-0")) : null;
    return entry ?? named(name) ?? input ?? row?.querySelector("input, select, textarea, button") ?? this.root.querySelector(".loose button, .due button") ?? named("id") ?? named("name");
  }

  pressed = (event) => {
    const { editor } = this.props;
    if (event.key !== "Escape" || event.defaultPrevented) return;
    editor.wantsFocus = { node: editor.open?.id ?? editor.current };
    editor.changed();
    event.preventDefault();
  };

  // The help of a field goes when the focus leaves the form.
  left = (event) => {
    if (!this.root.contains(event.relatedTarget) && this.state.told) this.setState({ told: null });
  };

  told = (parameter) => {
    if (this.state.told !== parameter) this.setState({ told: parameter });
  };

  render({ editor }) {
    const operator = editor.open;
    const { told } = this.state;
    return (
      <div class="form" ref={(element) => (this.root = element)} onKeyDown={this.pressed} onFocusOut={this.left}>
        <div class="scroll" key={operator ? editor.identity(operator.id) : ""}>
          {operator ? this.operator(operator) : editor.selected.size > 1 ? this.several() : this.plan()}
        </div>
        <p class="told">{told ? helpOf(told) : operator ? firstSentence(editor.kinds.get(operator.kind)?.help ?? "") : "A field is checked when you leave it."}</p>
      </div>
    );
  }

  operator(operator) {
    const { editor } = this.props;
    const { document } = editor;
    const problems = editor.problemsAtFields(operator.id);
    const own = editor.parametersOf(operator);
    const names = new Set(own.map(({ name }) => name));
    const common = editor.catalogue.common.filter(({ name }) => !names.has(name));
    const key = `${editor.identity(operator.id)}\n${operator.kind}\n${operator.fields.connector ?? ""}`;
    const [first, rest] = this.split(key, own, common, operator.fields, problems);
    const wrong = rest.filter(({ name }) => problems.some(({ field }) => field === name || field?.startsWith(`${name}.`)));
    const known = new Set([...own, ...common].map(({ name }) => name));
    const unknown = Object.keys(operator.fields).filter((name) => !known.has(name));
    const columns = operator.kind === "source" ? statedColumns(operator) : editor.columnsFor(operator);
    const row = (parameter) => (
      <Row
        key={parameter.name}
        parameter={parameter}
        value={operator.fields[parameter.name]}
        commit={(value) => {
          editor.set(operator.id, parameter.name, value);
          if (isPath(parameter) && value && yaml.plain(operator.fields.connector ?? "") === "trace") typedPath(editor, operator, yaml.plain(value) ?? value);
        }}
        aside={
          isPath(parameter) && (
            <button type="button" class="aside" onClick={() => pickFile(editor, operator.id)}>
              Browse…
            </button>
          )
        }
        problems={problems}
        columns={columns}
        editor={editor}
        prefix="field"
        told={this.told}
      />
    );
    const others = problems.filter(({ field }) => ![...known, ...unknown].some((name) => field === name || field?.startsWith(`${name}.`)));
    const named = others.filter(({ field }) => field === "id");
    const loose = others.filter((each) => !named.includes(each) && !editor.toDo.has(each));
    const toDo = others.filter((each) => editor.toDo.has(each));
    return (
      <div class="fields">
        <div class="heading">
          <Combo
            name="id"
            value={operator.id}
            label={`name of the ${operator.kind}`}
            wrong={named.length > 0}
            described={named.length ? "id-wrong" : undefined}
            commit={(to) => editor.rename(operator.id, to)}
          />
          <span class="kind">{operator.kind}</span>
        </div>
        <Wrong id="id-wrong" problems={named} editor={editor} />
        <Wrong id="operator-wrong" problems={loose} editor={editor} />
        {toDo.length > 0 && <p class="due">To do: {toDo.map(toDoWords).join(", ")}</p>}
        {this.inputs(operator, document, loose.some(({ field = "" }) => field.startsWith("input")))}
        {first.map(row)}
        {unknown.map((name) => (
          <div class="row bad" key={name} data-row={name}>
            <span class="label">{name}</span>
            <span class="unknown">
              {operator.fields[name]}{" "}
              <button type="button" class="drop" aria-label={`remove ${name}`} onClick={() => editor.set(operator.id, name, null)}>
                ×
              </button>
            </span>
            <Wrong id={`field-${name}-wrong`} problems={problems.filter(({ field }) => field === name)} editor={editor} />
          </div>
        ))}
        {rest.length > 0 && (
          <details open={this.state.more || wrong.length > 0} onToggle={(event) => this.setState({ more: event.target.open })}>
            <summary>{rest.length} more fields</summary>
            {(this.state.more || wrong.length > 0) && rest.map(row)}
          </details>
        )}
        <div class="actions">
          {operator.kind === "source" && operator.fields.path === undefined && (
            <button type="button" onClick={() => pickFile(editor, operator.id)}>
              Read a file…
            </button>
          )}
          <button type="button" onClick={() => editor.takeSample(operator.id)}>
            {editor.hasResults(operator.id) ? "Result rows" : "Sample rows"}
          </button>
          <button type="button" onClick={() => editor.select(operator.id) ?? editor.remove()}>
            Remove
          </button>
        </div>
      </div>
    );
  }

  // The form of several selected operators: the actions on all of them.
  several() {
    const { editor } = this.props;
    const ids = editor.document.operators.map(({ id }) => id).filter((id) => editor.selected.has(id));
    return (
      <div class="fields">
        <div class="heading several">
          <b>{ids.length} operators</b>
          <span class="kind">selected</span>
        </div>
        <ul>
          {ids.map((id) => (
            <li key={id}>
              <button type="button" onClick={() => editor.openForm(id)}>
                {id}
              </button>
            </li>
          ))}
        </ul>
        <div class="actions">
          <button type="button" onClick={() => startMove(editor, editor.current)} title="Arrows choose the line, Enter moves (m)">
            Move to a line
          </button>
          <button type="button" onClick={() => editor.remove()}>
            Remove
          </button>
        </div>
      </div>
    );
  }

  // The inputs of the operator, as choices: another way to connect it.
  inputs(operator, document, wrong) {
    const { editor } = this.props;
    const ports = editor.portsOf(operator);
    if (!ports.length) return null;
    const could = document.operators.filter(({ id }) => editor.canConnect(id, operator.id));
    return ports.map((name, port) => {
      const input = operator.inputs[port] ?? "";
      if (port > operator.inputs.length) return null;
      const label = ports.length > 1 ? `reads ${name || port + 1}` : "reads";
      const known = input === "" || operatorOf(document, input);
      return (
        <div class="row inputs" key={port}>
          <span class="label">{label}</span>
          <select
            data-field={`input-${port}`}
            class={wrong ? "wrong" : ""}
            aria-label={`${label}: input of ${operator.id}`}
            aria-invalid={wrong}
            aria-describedby={wrong ? "operator-wrong" : undefined}
            value={input}
            onChange={({ target }) =>
              target.value === ""
                ? editor.do(`disconnect ${input} from ${operator.id}`, [{ op: "disconnect", from: input, to: operator.id, port }])
                : editor.connect(target.value, operator.id, port)
            }
          >
            <option value="">nothing</option>
            {!known && <option value={input}>{input}</option>}
            {could.map(({ id }) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </div>
      );
    });
  }

  plan() {
    const { editor } = this.props;
    const { document } = editor;
    const problems = editor.problemsAtFields("").map((problem) => ({ ...problem, field: (problem.field ?? "").replace(/^qos\./, "") }));
    const known = new Set(editor.catalogue.qos.map(({ name }) => name));
    const empty = !document.operators.length && document.readable !== false;
    const loose = empty ? [] : problems.filter(({ field }) => !known.has(field.split(".")[0]));
    const others = (document.problems ?? []).filter(({ operator }) => operator);
    const missing = loose.filter((each) => editor.toDo.has(each)); // a sink
    const [first, rest] = this.split("", editor.catalogue.qos, [], document.qos ?? {}, problems);
    const row = (parameter) => (
      <Row
        key={parameter.name}
        parameter={parameter}
        value={document.qos?.[parameter.name]}
        commit={(value) => editor.setQos(parameter.name, value)}
        problems={problems}
        columns={{}}
        editor={editor}
        prefix="qos"
        told={this.told}
      />
    );
    return (
      <div class="fields">
        <div class="heading">
          <Combo
            name="name"
            value={document.name ?? ""}
            label="name of the plan"
            placeholder="plan"
            wrong={loose.some(({ field }) => field === "name")}
            described={loose.some(({ field }) => field === "name") ? "plan-wrong" : undefined}
            commit={(name) => editor.setName(name)}
          />
          <span class="kind">plan</span>
        </div>
        <Wrong id="plan-wrong" problems={loose.filter((each) => !missing.includes(each))} editor={editor} />
        {missing.length > 0 && <p class="due">To do: add a sink</p>}
        <p class="about">Quality of service that the results need:</p>
        {first.map(row)}
        {rest.length > 0 && (
          <details>
            <summary>{rest.length} more requirements</summary>
            {rest.map(row)}
          </details>
        )}
        {others.length > 0 && (
          <ul class="all">
            {others.map((problem, index) => (
              <li key={index} class={editor.toDo.has(problem) ? "due" : ""}>
                <button type="button" onClick={() => editor.goToProblem(problem)}>
                  {[problem.operator, problem.field].filter(Boolean).join(", ")}
                </button>{" "}
                {editor.toDo.has(problem) ? toDoWords(problem) : words(problem)}
              </li>
            ))}
          </ul>
        )}
      </div>
    );
  }
}
