// Descriptions of operators and lines, with words and sizes, for the canvas, the exported picture and screen readers.
import { counted } from "../common/counted.js";
import { toDoWords } from "./to_do.js";
import { keyOf } from "./layout.js";
import { plain, read } from "./yaml.js";

export const LEVELS = [
  [0.85, "high"],
  [0.6, "raised"],
];
const MOST_WIDTH = 164; // greatest width of an operator, pixels
const LEAST_WIDTH = 84;
const PAD = 12; // space at both sides of its words
const PORT = 20; // height of a port's row
export const FONT = {
  name: "600 13px",
  kind: "400 10.5px",
  brief: "400 11.5px",
  port: "400 10px",
};

// Widths of texts in the fonts of the page, measured once each.
export class Ruler {
  constructor(family) {
    this.context = document.createElement("canvas").getContext("2d");
    this.family = family;
    this.known = new Map();
  }
  width(font, text) {
    const key = `${font}\n${text}`;
    if (!this.known.has(key)) {
      if (this.known.size > 5000) this.known.clear();
      this.context.font = `${FONT[font]} ${this.family}`;
      this.known.set(key, this.context.measureText(text).width);
    }
    return this.known.get(key);
  }
  // The text, shortened with an ellipsis to what fits.
  fit(font, text, room) {
    if (this.width(font, text) <= room) return text;
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.width(font, `${text.slice(0, middle).trimEnd()}…`) <= room) low = middle;
      else high = middle - 1;
    }
    return `${text.slice(0, low).trimEnd()}…`;
  }
}

// The YAML text of a value as words: the entries of a list or a mapping, separated by commas.
const entries = (text) => {
  try {
    const value = read(text);
    if (value instanceof Map) return [...value].map(([name, each]) => (each && each !== name ? `${name}: ${each}` : name)).join(", ");
    if (Array.isArray(value)) return value.join(", ");
    return value;
  } catch {
    return text;
  }
};

// The value of a parameter as words: of a function its name without the hash, of a table its file or its rows.
const words = ({ name, type }, text) => {
  if (type === "function") return (plain(text) ?? text).replace(/@[0-9a-f]+$/, "").replace(/^.*:/, "");
  if (type !== "table") return entries(text, name);
  try {
    const table = read(text);
    if (!(table instanceof Map)) return entries(text);
    const rows = Number(table.get("rows"));
    return table.get("path")?.split(/[/\\]/).pop() ?? `table of ${rows} ${rows === 1 ? "row" : "rows"}`;
  } catch {
    return text;
  }
};

// The main parameters of an operator in a few words: those that it needs, otherwise the first that is set.
export function brief(operator, parameters) {
  const told = parameters.filter(({ name, required, leads }) => (required || leads) && name !== "connector" && operator.fields[name] !== undefined);
  const others = parameters.filter(({ name }) => operator.fields[name] !== undefined && name !== "connector");
  const named = (told.length ? told : others.slice(0, 1)).map((each) => words(each, operator.fields[each.name]));
  if (operator.fields.connector !== undefined) named.unshift(plain(operator.fields.connector) ?? "");
  if (operator.fields.rate !== undefined && !told.length) named[1] = entries(operator.fields.rate);
  // which of several readers it is, as they are alike else
  const { share, readers } = operator.fields;
  if (share !== undefined) named.splice(1, 0, plain(share) ?? share);
  else if (Number(readers) > 1) named.splice(1, 0, `${readers} readers`);
  return named.filter(Boolean).slice(0, 3).join(" · ");
}

const STATES_WITHOUT_WORD = new Set(["", "running", "shared"]);
const briefs = new WeakMap(); // by operator, which is never changed

export function rate(value) {
  if (value === null || value === undefined) return "";
  if (value >= 1e6) return `${trim(value / 1e6)} M/s`;
  if (value >= 1e4) return `${trim(value / 1e3)} k/s`;
  return `${trim(value)}/s`;
}

export function load(value) {
  if (value === null || value === undefined) return "load unknown";
  return value >= 0.01 ? counted(trim(value), "core") : value > 0 ? "< 0.01 cores" : "0 cores";
}

const trim = (value) => (value >= 100 ? Math.round(value).toLocaleString("en-GB") : String(Number(value.toPrecision(2))));

// Everything that is drawn of one operator, as plain values: equal descriptions are drawn equally.
export function describe(editor, operator, ruler) {
  const { document, live, checking, cost } = editor;
  const { id, kind } = operator;
  const ports = editor.portsOf(operator);
  const own = editor.problemsOf(id);
  const problems = own.filter((each) => !editor.toDo.has(each));
  const toDo = problems.length ? [] : own;
  const running = live && !document.draft?.added?.includes(id) ? live : null;
  const peer = running?.peers?.[id] ?? null;
  const draft = document.draft;
  const change = draft?.added?.includes(id) ? "new" : draft?.changed?.includes(id) ? "changed" : draft?.shared?.includes(id) ? "shared" : "";
  const state = running?.states?.[id] ?? "";
  const status = [];
  if (peer) status.push(peer, ...(STATES_WITHOUT_WORD.has(state) ? [] : [state]));
  else if (checking) {
    const placed = cost?.peers?.[id];
    if (placed) status.push(placed);
    if (document.loads?.[id] !== undefined) status.push(load(document.loads[id])); // rates are at the lines
  }
  const owner = running?.shared?.[id] ?? null;
  const copies = running?.backups?.[id] ?? [];
  const replicas = running?.replicas?.[id] ?? [];
  const ghosts = [...copies.map((each) => `backup ${each}`), ...replicas.map((each) => `replica ${each}`)];
  const named = ports.length > 1;
  const inset = named ? Math.max(0, ...ports.map((name) => ruler.width("port", name))) + (ports.some(Boolean) ? 8 : 0) : 0;
  if (!briefs.has(operator)) briefs.set(operator, brief(operator, editor.parametersOf(operator)));
  const told = briefs.get(operator);
  const label = kind || "no kind";
  const wanted = Math.max(
    ruler.width("name", id),
    ruler.width("kind", label),
    ruler.width("brief", told),
    ruler.width("brief", status.join(" · ")) + (peer ? 14 : 0),
  );
  const lines = [told, status.length, owner].filter(Boolean).length;
  return {
    id,
    kind: label,
    brief: told,
    status: status.join(" · "),
    peer,
    state: STATES_WITHOUT_WORD.has(state) ? "" : state,
    tip: [running?.tips?.[id] ?? []].flat().join("\n"),
    owner,
    ghosts,
    spark: Boolean(running?.spark?.includes(id)),
    change,
    problems: problems.length,
    problem: problems.map((each) => each.message ?? each.expected ?? "").join("\n"),
    toDo: toDo.map(toDoWords).join(", "),
    unchecked: editor.edits.unchecked.has(id),
    ports: ports.map((name, port) => ({ name, taken: operator.inputs[port] !== undefined })),
    output: editor.hasOutput(operator),
    inset,
    width: Math.round(Math.min(MOST_WIDTH + inset, Math.max(LEAST_WIDTH, wanted + 2 * PAD + inset))),
    height: Math.max(42 + 16 * Math.max(lines, 1), PORT * ports.length + 8),
    room: ghosts.length ? 18 * Math.min(ghosts.length, 3) + 2 : running?.spark?.includes(id) ? 12 : 0,
  };
}

// Heights of the ports from the middle of an operator.
export const portShifts = (count) => Array.from({ length: count }, (_, port) => (port - (count - 1) / 2) * PORT);

// The words of an operator for screen readers.
export function aloud(shown, operator) {
  const parts = [shown.id, shown.kind, shown.brief];
  if (operator.inputs.length) parts.push(`reads ${operator.inputs.join(" and ")}`);
  if (shown.status) parts.push(shown.peer === null ? shown.status : `on ${shown.status}`);
  if (shown.owner) parts.push(`shared with ${shown.owner}`);
  parts.push(...shown.ghosts);
  if (shown.spark) parts.push("on Spark");
  if (shown.change) parts.push(shown.change === "new" ? "new in this draft" : `${shown.change} in this draft`);
  if (shown.problems) parts.push(shown.problem);
  if (shown.toDo) parts.push(`to do: ${shown.toDo}`);
  if (shown.unchecked) parts.push("not checked yet");
  return parts.filter(Boolean).join(", ");
}

// Lines between the operators: one for each input that exists.
export function linesOf(editor) {
  const { document, live, checking } = editor;
  const known = new Set(document.operators.map(({ id }) => id));
  return document.operators.flatMap((operator) =>
    operator.inputs.flatMap((from, port) => {
      if (!known.has(from)) return [];
      const { id: to } = operator;
      const queue = live?.queues?.[to] ?? null;
      const label = live ? (live.rates?.[`${from}>${to}`] ?? "").replace(/ tuples\/s$/, "/s") : checking ? rate(document.rates?.[from]) : "";
      return [
        {
          key: keyOf({ from, to, port }),
          from,
          to,
          port,
          label,
          queue,
          level: queue === null ? "" : (LEVELS.find(([least]) => queue >= least)?.[1] ?? "calm"),
          unchecked: editor.edits.unchecked.has(to),
        },
      ];
    }),
  );
}
