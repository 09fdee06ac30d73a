// The part of YAML that a page needs: it shows fields without quotes, writes them with the quotes that they need, and draws
// pasted or typed text before the kernel has read it. The reader of the kernel decides. This one throws `NotRead` at YAML that
// plans hardly contain: anchors, tags, block scalars.
// A scalar is read as its text, a list as an array, a mapping as a Map.

const QUOTED = /^(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")/;
const OTHER = /^(?:~|null|true|false|[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|0x[\da-f]+|0o[0-7]+|[-+]?\.inf|\.nan)$/i;

export class NotRead extends Error {}

const fail = (words) => {
  throw new NotRead(words);
};

// The value of a scalar, without the quotes and escapes of its YAML text.
function unquoted(text) {
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  if (text.startsWith('"')) {
    try {
      return JSON.parse(text);
    } catch {
      return fail(`an escape in ${text}`);
    }
  }
  return text;
}

// -- flow style ----------------------------------------------------------------------------------------------------------

class Flow {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }
  skip() {
    for (;;) {
      const blank = /^(?:\s+|#[^\n]*)/.exec(this.text.slice(this.at));
      if (!blank) return;
      this.at += blank[0].length;
    }
  }
  next() {
    this.skip();
    return this.text[this.at];
  }
  value(inside) {
    const first = this.next();
    if (first === "{") return this.mapping();
    if (first === "[") return this.list();
    const rest = this.text.slice(this.at);
    const quoted = QUOTED.exec(rest);
    if (quoted) {
      this.at += quoted[0].length;
      return unquoted(quoted[0]);
    }
    if (first === undefined || /['"&*!|>%@`]/.test(first)) return fail(`a value that begins with ${first}`);
    const end = inside ? /,|[{}[\]]|:(?=[\s,[\]{}]|$)|\s#/ : /\s#|\n/;
    const length = rest.search(end);
    const plain = (length < 0 ? rest : rest.slice(0, length)).replace(/\s+/g, " ").trim();
    this.at += length < 0 ? rest.length : length;
    if (!inside && /:(?:\s|$)/.test(plain)) fail(`a colon in ${plain}`);
    return plain;
  }
  mapping() {
    const found = new Map();
    this.at++;
    for (;;) {
      if (this.next() === "}") break;
      const key = this.value(true);
      if (typeof key !== "string") fail("a key that is no text");
      if (this.next() === ":") {
        this.at++;
        found.set(key, ",}".includes(this.next()) ? "" : this.value(true));
      } else found.set(key, "");
      if (this.next() === ",") this.at++;
      else if (this.next() !== "}") fail("a mapping that does not end");
    }
    this.at++;
    return found;
  }
  list() {
    const found = [];
    this.at++;
    for (;;) {
      if (this.next() === "]") break;
      found.push(this.value(true));
      if (this.next() === ",") this.at++;
      else if (this.next() !== "]") fail("a list that does not end");
    }
    this.at++;
    return found;
  }
  end() {
    if (this.next() !== undefined) fail(`${this.text.slice(this.at, this.at + 20)} after the value`);
  }
}

function flow(text) {
  const reader = new Flow(text);
  const value = reader.value(false);
  reader.end();
  return value;
}

// -- block style ---------------------------------------------------------------------------------------------------------

const KEY = /^((?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\s'"#&*!|>%@`{}[\],][^#]*?|-[^\s#][^#]*?))\s*:(?:\s+|$)/;

class Block {
  constructor(text) {
    this.lines = text
      .split("\n")
      .map((line) => ({ indent: line.search(/\S|$/), text: line.trim() }))
      .filter(({ text }) => text && !text.startsWith("#") && text !== "---");
    this.at = 0;
  }
  value(least) {
    const line = this.lines[this.at];
    if (!line || line.indent < least) return "";
    if (/^-(?:\s|$)/.test(line.text)) return this.list(line.indent);
    if (!/^[{[]/.test(line.text) && KEY.test(line.text)) return this.mapping(line.indent);
    this.at++;
    return this.inline(line.text, least - 1);
  }
  // A value that begins on a line with its key, and may go on in the next lines, which are indented more than `indent`.
  inline(text, indent) {
    let whole = text;
    for (;;) {
      const more = this.lines[this.at];
      const inFlow = /^[{[]/.test(whole);
      try {
        const value = flow(whole);
        if (inFlow || !more || more.indent <= indent) return value;
      } catch (problem) {
        if (!more || (!inFlow && more.indent <= indent)) throw problem;
      }
      whole += `${inFlow ? "\n" : " "}${more.text}`;
      this.at++;
    }
  }
  mapping(indent) {
    const found = new Map();
    for (let line; (line = this.lines[this.at]) && line.indent === indent; ) {
      const key = KEY.exec(line.text);
      if (!key) fail(`${line.text}, which is no "key: value"`);
      this.at++;
      const rest = line.text.slice(key[0].length);
      const name = unquoted(key[1].trim());
      const below = this.lines[this.at];
      if (rest && !rest.startsWith("#")) found.set(name, this.inline(rest, indent));
      else if (below && below.indent === indent && /^-(?:\s|$)/.test(below.text)) found.set(name, this.list(indent));
      else found.set(name, this.value(indent + 1));
    }
    if (this.lines[this.at]?.indent > indent) fail("a line that is indented too far");
    return found;
  }
  list(indent) {
    const found = [];
    for (let line; (line = this.lines[this.at]) && line.indent === indent && /^-(?:\s|$)/.test(line.text); ) {
      const rest = line.text.slice(1).trimStart();
      if (rest) this.lines[this.at] = { indent: indent + line.text.length - rest.length, text: rest };
      else this.at++;
      found.push(this.value(indent + 1));
    }
    return found;
  }
}

// Reads a value, or a whole plan.
export function read(text) {
  const block = new Block(text);
  const value = block.value(0);
  if (block.at < block.lines.length) fail(`line ${block.lines[block.at].text}`);
  return value;
}

// The value of a field as people see it: its text, or null where it is a list or a mapping or cannot be read.
export function plain(text) {
  if (text === undefined || text === null) return "";
  try {
    const value = read(text);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

// -- writing -------------------------------------------------------------------------------------------------------------

// YAML text of a value that is text, with quotes if it needs them.
export function text(value, inside = false) {
  const bare =
    value === value.trim() &&
    value !== "" &&
    !OTHER.test(value) &&
    !/^[-?:](?:\s|$)|^[,[\]{}#&*!|>'"%@`]/.test(value) &&
    !/:(?:\s|$)|\s#|[\n\r\t\0-\x1f]/.test(value) &&
    !(inside && /[,[\]{}]/.test(value)) &&
    value !== "---";
  if (bare) return value;
  return /[\n\r\t\0-\x1f]/.test(value) ? JSON.stringify(value) : `'${value.replaceAll("'", "''")}'`;
}

// YAML text of a typed value that need not be text, such as a number, a duration or a list.
export function typed(value) {
  const given = value.trim();
  try {
    read(given);
    return given.includes("\n") || (KEY.test(given) && !/^[{[]/.test(given)) ? text(given) : given;
  } catch {
    return text(given);
  }
}

export const list = (values) => `[${values.map((value) => text(value, true)).join(", ")}]`;
export const mapping = (pairs) => `{${pairs.map(([key, value]) => `${text(key, true)}: ${text(value, true)}`).join(", ")}}`;

// A value that was read, as YAML in flow style. Scalars get quotes only if they need them, so a number stays a number.
export function flowOf(value) {
  if (Array.isArray(value)) return `[${value.map(flowOf).join(", ")}]`;
  if (value instanceof Map) return `{${[...value].map(([key, each]) => `${text(key, true)}: ${flowOf(each)}`).join(", ")}}`;
  return OTHER.test(value) ? value : text(value, true);
}

// YAML text of operators for the clipboard: a part of a plan or, with its name and its requirements, a whole one.
export function operatorsText(operators, whole = null) {
  const head = whole ? ["format: 1", `name: ${text(whole.name)}`] : [];
  const stated = Object.entries(whole?.qos ?? {});
  if (stated.length) head.push(`qos: {${stated.map(([name, value]) => `${name}: ${value}`).join(", ")}}`);
  const lines = [...head, "operators:"];
  for (const { id, kind, inputs, fields } of operators) {
    lines.push(`  ${text(id)}:`, `    kind: ${kind}`);
    if (inputs.length === 1) lines.push(`    input: ${text(inputs[0])}`);
    else if (inputs.length) lines.push(`    inputs: ${list(inputs)}`);
    for (const [name, value] of Object.entries(fields)) {
      const [first, ...more] = value.split("\n");
      if (!more.length) lines.push(`    ${name}: ${first}`);
      else {
        const depth = Math.min(...[first, ...more].filter((line) => line.trim()).map((line) => line.search(/\S/)));
        lines.push(`    ${name}:`, ...[first, ...more].map((line) => `      ${line.slice(depth)}`));
      }
    }
  }
  return `${lines.join("\n")}\n`;
}

// Name, requirements and operators in the text of a plan, or of a part of one.
export function planOf(given) {
  const whole = read(given);
  if (!(whole instanceof Map)) fail("text that is no mapping");
  const operators = whole.get("operators") ?? (whole.has("format") ? new Map() : whole);
  if (!(operators instanceof Map)) return { name: whole.get("name"), qos: {}, operators: [] };
  const found = [];
  for (const [id, stated] of operators) {
    if (!(stated instanceof Map)) fail(`operator ${id}, which is no mapping`);
    const { kind, input, inputs, ...rest } = Object.fromEntries(stated);
    const reads = inputs ?? input ?? [];
    const fields = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, flowOf(value)]));
    found.push({ id, kind: String(kind ?? ""), inputs: [reads].flat().filter(Boolean), fields });
  }
  const qos = whole.get("qos");
  const stated = qos instanceof Map ? [...qos].map(([name, value]) => [name, flowOf(value)]) : [];
  return { name: whole.get("name"), qos: Object.fromEntries(stated), operators: found };
}
