// Operations on a document, as the page expects them: the result is drawn until the kernel has applied and checked them.
// A document is never changed: an operation returns a new one.
import { NotRead, flowOf, planOf, read } from "./yaml.js";

// An id like `wanted` that none of `operators` has.
export function unique(operators, wanted) {
  const taken = new Set(operators.map(({ id }) => id));
  if (!taken.has(wanted)) return wanted;
  for (let number = 2; ; number++) if (!taken.has(`${wanted}_${number}`)) return `${wanted}_${number}`;
}

export const operatorOf = (document, id) => document.operators.find((each) => each.id === id);

// Readers of `id`: their ids, and the port at which each reads it.
export const readersOf = (document, id) =>
  document.operators.flatMap((each) =>
    each.inputs.flatMap((input, port) => (input === id ? [{ id: each.id, port }] : [])),
  );

// Whether `reader` reads the stream of `id`, directly or through others.
export function readsFrom(document, reader, id) {
  const known = new Map(document.operators.map((each) => [each.id, each.inputs]));
  const seen = new Set();
  const waiting = [reader];
  while (waiting.length) {
    const next = waiting.pop();
    if (next === id) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    waiting.push(...(known.get(next) ?? []));
  }
  return false;
}

// Largest number of inputs of a kind of operator.
export const mostInputs = (kinds, kind) => {
  const [, most] = kinds.get(kind)?.inputs ?? [0, null];
  return most === null || most === undefined ? Infinity : most;
};

const changed = (document, id, change) => ({
  ...document,
  operators: document.operators.map((each) => (each.id === id ? { ...each, ...change(each) } : each)),
});

function added(document, { kind, operator, fields = {}, inputs = [] }) {
  if (operatorOf(document, operator)) return document; // the kernel was faster
  return { ...document, operators: [...document.operators, { id: operator, kind, inputs, fields }] };
}

function removed(document, id) {
  const gone = operatorOf(document, id);
  if (!gone) return document;
  const instead = gone.inputs.length === 1 ? [gone.inputs[0]] : [];
  const operators = document.operators
    .filter((each) => each.id !== id)
    .map((each) =>
      each.inputs.includes(id)
        ? { ...each, inputs: each.inputs.flatMap((input) => (input === id ? instead : [input])) }
        : each,
    );
  return { ...document, operators };
}

function connected(document, { from, to, port = null }, kinds) {
  return changed(document, to, ({ kind, inputs }) => {
    const most = mostInputs(kinds, kind);
    const at = port ?? (inputs.length < most ? inputs.length : most - 1);
    if (at > inputs.length) return { inputs: [...inputs, from] };
    return { inputs: [...inputs.slice(0, at), from, ...inputs.slice(at + 1)] };
  });
}

function disconnected(document, { from, to, port = null }) {
  return changed(document, to, ({ inputs }) => {
    const at = port !== null && inputs[port] === from ? port : inputs.indexOf(from);
    return { inputs: inputs.filter((_, place) => place !== at) };
  });
}

function renamed(document, { operator, to }) {
  if (operatorOf(document, to)) return document;
  const name = (id) => (id === operator ? to : id);
  const operators = document.operators.map((each) => ({ ...each, id: name(each.id), inputs: each.inputs.map(name) }));
  const { columns = {}, ...rest } = document;
  return { ...rest, operators, columns: Object.fromEntries(Object.entries(columns).map(([id, each]) => [name(id), each])) };
}

function without(values, name, value) {
  const { [name]: _, ...rest } = values ?? {};
  return value === null || value === undefined ? rest : { ...values, [name]: value };
}

// A field, or one entry of a mapping: "values.total".
function set({ fields }, field, value) {
  const [name, ...inner] = field.split(".");
  if (!inner.length || fields[field] !== undefined) return { fields: without(fields, field, value) };
  const before = fields[name] ? read(fields[name]) : new Map();
  if (!(before instanceof Map)) return {};
  const entries = new Map(before);
  const key = inner.join(".");
  if (value === null) entries.delete(key);
  else entries.set(key, read(value));
  return { fields: without(fields, name, entries.size ? flowOf(entries) : null) };
}

function withText(document, yaml) {
  const { name, qos, operators } = planOf(yaml);
  return { ...document, name: name ?? document.name, qos, operators, yaml };
}

function pasted(document, yaml) {
  const { name, qos, operators } = planOf(yaml);
  if (!document.operators.length && (name !== undefined || Object.keys(qos).length)) return withText(document, yaml); // a whole plan
  let next = document;
  const names = new Map();
  for (const each of operators) {
    const id = unique(next.operators, each.id);
    names.set(each.id, id);
    next = added(next, { ...each, operator: id });
  }
  const fresh = new Set(names.values());
  const known = new Set(next.operators.map(({ id }) => id));
  return {
    ...next,
    operators: next.operators.map((each) =>
      fresh.has(each.id)
        ? { ...each, inputs: each.inputs.map((input) => names.get(input) ?? input).filter((input) => known.has(input)) }
        : each,
    ),
  };
}

function one(document, operation, kinds) {
  switch (operation.op) {
    case "add":
      return added(document, operation);
    case "remove":
      return removed(document, operation.operator);
    case "connect":
      return connected(document, operation, kinds);
    case "disconnect":
      return disconnected(document, operation);
    case "rename":
      return renamed(document, operation);
    case "set":
      return changed(document, operation.operator, (each) => set(each, operation.field, operation.value));
    case "qos":
      return { ...document, qos: without(document.qos, operation.field, operation.value) };
    case "name":
      return { ...document, name: operation.value };
    case "paste":
      return pasted(document, operation.yaml);
    case "insert": {
      const { from, to, port } = operation.between;
      const next = added(document, { ...operation, inputs: [from] });
      return operatorOf(next, to)?.inputs[port] === from ? connected(next, { from: operation.operator, to, port }, kinds) : next;
    }
    case "text":
      return withText(document, operation.yaml);
    default:
      return document;
  }
}

// The document after `operations`; an operation whose result the page cannot find changes nothing until the kernel answers.
export function applied(document, operations, kinds) {
  return operations.reduce((before, operation) => {
    try {
      return one(before, operation, kinds);
    } catch (problem) {
      if (problem instanceof NotRead) return before;
      throw problem;
    }
  }, document);
}

// Ids of the operators of `after` that `before` does not have, or has otherwise.
export function touched(before, after) {
  const known = new Map(before.operators.map((each) => [each.id, each]));
  const same = (one, other) =>
    one === other ||
    (one !== undefined &&
      one.kind === other.kind &&
      one.inputs.join("\n") === other.inputs.join("\n") &&
      JSON.stringify(one.fields) === JSON.stringify(other.fields));
  return new Set(after.operators.filter((each) => !same(known.get(each.id), each)).map(({ id }) => id));
}

// The columns of an operator's output: those that the kernel has found or, until then, those of the first input with known columns.
export function columnsOf(document, id, depth = 0) {
  const known = document.columns?.[id];
  if (known && Object.keys(known).length) return known;
  const operator = operatorOf(document, id);
  if (!operator || depth > document.operators.length) return {};
  for (const input of operator.inputs) {
    const columns = columnsOf(document, input, depth + 1);
    if (Object.keys(columns).length) return columns;
  }
  return {};
}

// The columns that the fields of an operator can name: those of all of its inputs; of equal names, that of the first input.
export const columnsFor = (document, { inputs }) =>
  Object.assign({}, ...[...inputs].reverse().map((input) => columnsOf(document, input)));
