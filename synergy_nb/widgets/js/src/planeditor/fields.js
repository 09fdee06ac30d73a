// Fields of a form, by the type of their parameter. Each gets the YAML text of its value, or null if there is none, and
// commits a new text. Nothing here knows operators.
import { useState } from "preact/hooks";
import { Combo } from "./combo.js";
import { list, mapping, plain, read, text, typed } from "./yaml.js";

const CALLS = ["count(*)", "sum()", "avg()", "min()", "max()", "count()", "count(distinct )"].map((name) => ({ name, about: "aggregate" }));
const TYPES = ["int", "float", "str", "bool", "time", "bytes", "date", "duration", "decimal(18, 2)", "int[]", "struct(a int, b str)"].map((name) => ({ name }));
const EXAMPLES = { condition: "such as bytes > 1000", duration: "such as 2 s", window: "such as 10 s", fraction: "such as 5 %", column: "column" };
const TEXTS = new Set(["text", "name", "column", "condition"]);
const PAIRS = new Set(["calls", "over", "expressions", "column types"]);

const reading = (value) => {
  try {
    return value === null ? "" : read(value);
  } catch {
    return null;
  }
};

const namesOf = (columns) => Object.entries(columns).map(([name, type]) => ({ name, about: type }));

// A truth value: a switch.
function Flag({ parameter, value, commit, label, described, wrong }) {
  const stated = plain(value ?? "");
  const on = (stated || parameter.default) === "true";
  return (
    <label class="flag">
      <input
        type="checkbox"
        data-field={parameter.name}
        role="switch"
        checked={on}
        aria-label={label}
        aria-invalid={Boolean(wrong)}
        aria-describedby={described}
        onChange={(event) => commit(event.target.checked ? "true" : parameter.default === "true" ? "false" : null)}
      />
      <span>{on ? "yes" : "no"}</span>
    </label>
  );
}

function Choice({ parameter, value, commit, label, described, wrong }) {
  const stated = plain(value ?? "") ?? "";
  const known = parameter.choices ?? [];
  return (
    <select
      data-field={parameter.name}
      class={wrong ? "wrong" : ""}
      aria-label={label}
      aria-describedby={described}
      aria-invalid={Boolean(wrong)}
      value={stated}
      onChange={(event) => commit(event.target.value === "" ? null : text(event.target.value))}
    >
      {(!parameter.required || !stated) && <option value="">{parameter.default ? `${plainDefault(parameter)} (default)` : "choose…"}</option>}
      {stated && !known.includes(stated) && <option value={stated}>{stated}</option>}
      {known.map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  );
}

export const plainDefault = ({ default: given }) => String(given ?? "").replace(/`/g, "");

// Several columns: one chip each, and a field for the next.
function Columns({ parameter, value, commit, label, described, wrong, columns, disabled }) {
  const found = reading(value);
  const chosen = Array.isArray(found) ? found : found ? [found] : [];
  const without = (name) => chosen.filter((each) => each !== name);
  const put = (names) => commit(names.length ? list(names) : null);
  const names = namesOf(columns).filter(({ name }) => !chosen.includes(name));
  return (
    <span class={`chips${wrong ? " wrong" : ""}`}>
      {chosen.map((name) => (
        <span class={`chip${columns[name] || !Object.keys(columns).length ? "" : " unknown"}`} key={name}>
          {name}
          <button type="button" aria-label={`remove ${name}`} onClick={() => put(without(name))}>
            ×
          </button>
        </span>
      ))}
      <Combo
        name={parameter.name}
        value=""
        clears
        names={names}
        label={`${label}: add a column`}
        described={described}
        wrong={wrong}
        placeholder={chosen.length ? "add column" : parameter.required ? "column" : plainDefault(parameter) || "column"}
        disabled={disabled}
        commit={(given) => {
          const fresh = given.split(",").map((each) => each.trim()).filter((each) => each && !chosen.includes(each));
          if (fresh.length) put([...chosen, ...fresh]);
        }}
        emptied={() => chosen.length && put(chosen.slice(0, -1))}
      />
    </span>
  );
}

// Columns to sort by, each up or down.
function Order({ parameter, value, commit, label, described, wrong, columns }) {
  const found = reading(value);
  const keys = (Array.isArray(found) ? found : found ? String(found).split(",") : []).map((each) => {
    const [, name, way = "asc"] = /^\s*(.*?)(?:\s+(asc|desc))?\s*$/i.exec(each);
    return { name, down: way.toLowerCase() === "desc" };
  });
  const put = (next) => commit(next.length ? list(next.map(({ name, down }) => (down ? `${name} desc` : name))) : null);
  const names = namesOf(columns).filter(({ name }) => !keys.some((key) => key.name === name));
  return (
    <span class={`chips${wrong ? " wrong" : ""}`}>
      {keys.map(({ name, down }, index) => (
        <span class={`chip${columns[name] || !Object.keys(columns).length ? "" : " unknown"}`} key={name}>
          {name}
          <button
            type="button"
            class="way"
            aria-label={`${name}: ${down ? "largest first" : "smallest first"}; turn`}
            title={down ? "largest first" : "smallest first"}
            onClick={() => put(keys.map((key, place) => (place === index ? { ...key, down: !down } : key)))}
          >
            {down ? "↓ desc" : "↑ asc"}
          </button>
          <button type="button" aria-label={`remove ${name}`} onClick={() => put(keys.filter((_, place) => place !== index))}>
            ×
          </button>
        </span>
      ))}
      <Combo
        name={parameter.name}
        value=""
        clears
        names={names}
        label={`${label}: add a column`}
        described={described}
        wrong={wrong}
        placeholder={keys.length ? "then by" : "column"}
        commit={(given) => {
          const fresh = given.split(",").map((each) => /^\s*(.*?)(?:\s+(asc|desc))?\s*$/i.exec(each)).filter(([, name]) => name);
          if (fresh.length) put([...keys, ...fresh.map(([, name, way]) => ({ name, down: way?.toLowerCase() === "desc" }))]);
        }}
        emptied={() => keys.length && put(keys.slice(0, -1))}
      />
    </span>
  );
}

// Names with an expression, an aggregate call or a type each, one to a row; the last row is for the next.
// `next` has the last row get the focus.
function Pairs({ parameter, value, commit, label, described, wrong, problems, columns, next }) {
  const [half, setHalf] = useState(["", ""]); // of the last row, until it has both
  const found = reading(value);
  const pairs = found instanceof Map ? [...found] : Array.isArray(found) ? found.map((name) => [name, name]) : [];
  const of = parameter.type === "column types" ? TYPES : parameter.type === "calls" ? [...CALLS, ...namesOf(columns)] : namesOf(columns);
  const put = (next) => commit(next.length ? mapping(next) : null);
  const last = (index, given) => {
    const next = half.map((each, place) => (place === index ? given.trim() : each));
    if (next[0] && next[1]) {
      setHalf(["", ""]);
      put([...pairs, next]);
    } else setHalf(next);
  };
  const rows = [...pairs, half];
  const said = { calls: ["new column", "sum(…)"], expressions: ["column", "expression"], "column types": ["column", "type"] }[parameter.type];
  return (
    <span class={`pairs${wrong ? " wrong" : ""}`} role="group" aria-label={label}>
      {rows.map(([name, expression], index) => {
        const own = index < pairs.length;
        const bad = problems.some(({ field }) => field === (own ? `${parameter.name}.${name}` : parameter.name));
        return (
          <span class="pair" key={index}>
            <Combo
              name={own ? `${parameter.name}.${name}` : parameter.name}
              value={name}
              label={own ? `${label}: name of ${name}` : `${label}: name of the next`}
              described={described}
              placeholder={said[0]}
              names={parameter.type === "calls" ? [] : parameter.type === "column types" ? [] : namesOf(columns)}
              wrong={bad}
              commit={(given) => {
                if (!own) return last(0, given);
                const next = given.trim();
                put(next ? pairs.map((pair, place) => (place === index ? [next, pair[1]] : pair)) : pairs.filter((_, place) => place !== index));
              }}
            />
            <span aria-hidden="true">{parameter.type === "column types" ? ":" : "="}</span>
            <Combo
              name={own ? `${parameter.name}.${name}=` : `${parameter.name}=`}
              value={expression}
              label={own ? `${label}: ${name}` : `${label}: expression of the next`}
              described={described}
              placeholder={said[1]}
              words={parameter.type !== "column types"}
              names={of}
              wrong={bad}
              tabbed={own ? undefined : (given) => Boolean(half[0] && given.trim() && next())}
              commit={(given) => {
                if (!own) return last(1, given);
                put(pairs.map((pair, place) => (place === index ? [pair[0], given.trim()] : pair)));
              }}
            />
            {own && (
              // Tab goes to the next column; by keyboard, a column without a name is removed
              <button type="button" class="drop" tabindex={-1} aria-label={`remove ${name}`} onClick={() => put(pairs.filter((_, place) => place !== index))}>
                ×
              </button>
            )}
          </span>
        );
      })}
    </span>
  );
}

// A destination: its format, and a field for each of the options that this format has.
function Destination({ parameter, value, commit, label, described, wrong, problems }) {
  const found = reading(value);
  const stated = found instanceof Map ? found : new Map();
  const form = stated.get("format") ?? "";
  const itself = problems.some(({ field }) => field === parameter.name || field === `${parameter.name}.format`);
  const options = parameter.formats[form] ?? [];
  const entry = ([name, given]) => {
    if (Array.isArray(given)) return `${name}: ${list(given)}`;
    if (given instanceof Map) return `${name}: ${mapping([...given])}`;
    return `${name}: ${TEXTS.has(options.find((each) => each.name === name)?.type) ? text(given, true) : typed(given)}`;
  };
  const put = (pairs) => commit(`{${pairs.map(entry).join(", ")}}`);
  const choose = (format) => {
    const known = new Set((parameter.formats[format] ?? []).map(({ name }) => name));
    if (!format) return commit(null);
    return put([["format", format], ...[...stated].filter(([name]) => known.has(name))]);
  };
  const shown = (given) => (given === undefined ? "" : Array.isArray(given) ? list(given) : given instanceof Map ? mapping([...given]) : given);
  return (
    <span class={`pairs${wrong ? " wrong" : ""}`} role="group" aria-label={label}>
      <select
        data-field={parameter.name}
        class={itself ? "wrong" : ""}
        aria-label={`${label}: format`}
        aria-invalid={itself}
        aria-describedby={described}
        value={form}
        onChange={(event) => choose(event.target.value)}
      >
        <option value="">{plainDefault(parameter)}</option>
        {form && !parameter.formats[form] && <option value={form}>{form}</option>}
        {Object.keys(parameter.formats).map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
      {options.map((option) => (
        <span class="pair option" key={`${form}.${option.name}`}>
          <span>{option.name}</span>
          <Combo
            name={`${parameter.name}.${option.name}`}
            value={shown(stated.get(option.name))}
            label={`${label}: ${option.name}`}
            described={described}
            placeholder={option.required ? "needed" : option.default}
            names={(option.choices ?? []).map((name) => ({ name }))}
            wrong={problems.some(({ field }) => field === `${parameter.name}.${option.name}`)}
            commit={(given) => {
              const rest = [...stated].filter(([name]) => name !== option.name);
              put(given.trim() ? [...rest, [option.name, given.trim()]] : rest);
            }}
          />
        </span>
      ))}
    </span>
  );
}

// Any other value: a text, with the names of columns where it is an expression.
function Text({ parameter, value, commit, label, described, wrong, columns }) {
  const own = plain(value ?? "");
  const expression = parameter.expression || parameter.type === "condition";
  const asText = TEXTS.has(parameter.type);
  const one = parameter.columns === "one" || parameter.type === "column";
  return (
    <Combo
      name={parameter.name}
      value={own ?? value ?? ""}
      label={label}
      described={described}
      wrong={wrong}
      lines={parameter.multiline ? 2 : 1}
      words={expression}
      names={expression || one ? namesOf(columns) : (parameter.choices ?? []).map((name) => ({ name }))}
      placeholder={parameter.required ? `${EXAMPLES[parameter.type] ?? parameter.unit ?? ""}` : plainDefault(parameter)}
      commit={(given) => commit(given.trim() === "" ? null : asText && own !== null ? text(given.trim()) : typed(given))}
    />
  );
}

export function Field(props) {
  const { parameter } = props;
  const found = reading(props.value);
  if (found !== null) {
    if (parameter.type === "flag") return <Flag {...props} />;
    if (parameter.type === "choice" && parameter.choices?.length) return <Choice {...props} />;
    if (parameter.type === "columns" || parameter.columns === "many") if (!(found instanceof Map) && parameter.type !== "order") return <Columns {...props} />;
    if (parameter.type === "order") return <Order {...props} />;
    if (PAIRS.has(parameter.type)) return <Pairs {...props} />;
    if (parameter.formats && (found === "" || found instanceof Map)) return <Destination {...props} />;
  }
  return <Text {...props} />;
}
