// Columns of a table as the kernel sends them: typed arrays of numbers, of which texts are places in a sorted list. So a
// hundred thousand rows are sorted as numbers, by counting, and only the texts on the screen are ever decoded.
import { amount, seconds } from "./format.js";

const ARRAYS = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
const decoder = new TextDecoder();
const DAY = 86400; // seconds

const bytesOf = (buffer) => buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength); // aligned

class Column {
  constructor(head, take) {
    Object.assign(this, head);
    this.values = new ARRAYS[head.array](take());
    if (head.kind === "text") {
      this.ends = new Int32Array(take());
      this.texts = new Uint8Array(take());
    }
    this.missing = head.empty ? new Uint8Array(take()) : null;
    this.marks = head.marked ? new Uint8Array(take()) : null;
  }

  isEmpty(row) {
    return this.missing !== null && this.missing[row] === 1;
  }

  // What a cell shows.
  text(row) {
    if (this.isEmpty(row)) return "";
    const value = this.values[row];
    if (this.kind !== "text") return FORMATS[this.kind](value);
    return decoder.decode(this.texts.subarray(value ? this.ends[value - 1] : 0, this.ends[value]));
  }

  // What its head says of its values.
  get about() {
    const empty = this.empty ? `${amount(this.empty)} empty` : "";
    const of = FORMATS[this.kind];
    if (this.kind === "text") return [`${amount(this.words)} different`, empty].filter(Boolean).join(", ");
    if (this.low === undefined) return empty;
    const low = of(this.low);
    const high = of(this.high);
    return [low === high ? low : `${low} to ${high}`, empty].filter(Boolean).join(", ");
  }
}

const FORMATS = {
  integer: String,
  number: (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(6))) : Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "-∞"),
  time: (value) => stamp(value),
  date: (value) => stamp(value * DAY * 1e6).slice(0, -9),
  clock: (value) => stamp(value).replace(/^.* /, ""),
  span: (value) => seconds(value / 1e6),
};

// A time in microseconds since 1970 as text, without the zeros at its end.
function stamp(value) {
  const whole = Math.floor(value / 1e6);
  const date = new Date(whole * 1000);
  if (Number.isNaN(date.getTime())) return "–";
  const rest = value - whole * 1e6;
  const fraction = rest ? `.${String(rest).padStart(6, "0").replace(/0+$/, "")}` : "";
  return date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "") + fraction;
}

// The columns, and the marks of rows, that a message has.
export function columnsOf(content, buffers) {
  let at = 0;
  const take = () => bytesOf(buffers[at++]);
  const columns = content.columns.map((head) => new Column(head, take));
  return { columns, rows: content.rows, fresh: new Uint8Array(take()) };
}

const PIECE = 8192; // rows between two rests
const BITS = 11; // of a digit
const DIGITS = 1 << BITS;

// Sorts the rows by a column, those without a value last; rows of the same value stay in their order. It rests now and
// then, so that the page does not stand still; what it returns at the end are the places of the rows.
export function* sorting(column, rows, descending) {
  const order = new Uint32Array(rows);
  const low = new Uint32Array(rows);
  const high = new Uint32Array(rows);
  const double = new Float64Array(1);
  const halves = new Uint32Array(double.buffer);
  const first = new Uint8Array(new Uint16Array([1]).buffer)[0]; // place of the half with the sign
  const turn = descending ? 0xffffffff : 0;
  const last = [];
  let known = 0;
  for (let row = 0; row < rows; row++) {
    if (row % PIECE === 0) yield;
    const value = column.values[row];
    if (column.isEmpty(row) || value !== value) {
      last.push(row);
      continue;
    }
    double[0] = value + 0; // no -0
    // the bits of doubles are in the order of the doubles, once those of negative ones are turned round
    const negative = halves[first] >>> 31;
    low[row] = (negative ? ~halves[1 - first] : halves[1 - first]) ^ turn;
    high[row] = (negative ? ~halves[first] : halves[first] ^ 0x80000000) ^ turn;
    order[known++] = row;
  }
  order.set(last, known);
  let from = order.subarray(0, known);
  let to = new Uint32Array(known);
  for (const [keys, shift] of [low, high].flatMap((each) => [[each, 0], [each, BITS], [each, 2 * BITS]])) {
    const counts = new Uint32Array(DIGITS);
    for (let place = 0; place < known; place++) {
      if (place % PIECE === 0) yield;
      counts[(keys[from[place]] >>> shift) & (DIGITS - 1)]++;
    }
    if (known && counts[(keys[from[0]] >>> shift) & (DIGITS - 1)] === known) continue; // all are alike in these bits
    for (let digit = 0, sum = 0; digit < DIGITS; digit++) {
      const count = counts[digit];
      counts[digit] = sum;
      sum += count;
    }
    for (let place = 0; place < known; place++) {
      if (place % PIECE === 0) yield;
      to[counts[(keys[from[place]] >>> shift) & (DIGITS - 1)]++] = from[place];
    }
    [from, to] = [to, from];
  }
  if (from.buffer !== order.buffer) order.set(from);
  return order;
}
