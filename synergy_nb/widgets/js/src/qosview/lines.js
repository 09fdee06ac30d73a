// Points of one quantity, in arrays that double when they are full; and samples of several for as many columns as a
// drawing has, so that a frame costs the same for a hundred points and for a hundred thousand.
const FIRST = 1024;
const MOST = 1 << 18; // points; of more, the older half is thinned

export class Line {
  constructor() {
    this.clear();
  }

  clear() {
    this.times = new Float64Array(FIRST);
    this.values = new Float64Array(FIRST);
    this.size = 0;
  }

  append(times, values) {
    const size = this.size + times.length;
    if (size > this.times.length) {
      let capacity = this.times.length;
      while (capacity < size) capacity *= 2;
      for (const name of ["times", "values"]) {
        const larger = new Float64Array(capacity);
        larger.set(this[name].subarray(0, this.size));
        this[name] = larger;
      }
    }
    this.times.set(times, this.size);
    this.values.set(values, this.size);
    this.size = size;
    if (size > MOST) this.thin();
  }

  // Of each four points of the older half, the least and the greatest stay.
  thin() {
    const { times, values } = this;
    const half = (this.size >> 3) << 2;
    let to = 0;
    for (let at = 0; at < half; at += 4) {
      let low = at;
      let high = at;
      for (let place = at + 1; place < at + 4; place++) {
        if (!(values[place] >= values[low])) low = place; // also what is no number
        if (values[place] > values[high]) high = place;
      }
      for (const place of low === high ? [at, at + 3] : [Math.min(low, high), Math.max(low, high)]) {
        times[to] = times[place];
        values[to++] = values[place];
      }
    }
    times.copyWithin(to, half, this.size);
    values.copyWithin(to, half, this.size);
    this.size -= half - to;
  }

  get last() {
    return this.size ? this.times[this.size - 1] : -Infinity;
  }

  get first() {
    return this.size ? this.times[0] : Infinity;
  }

  // Place of the first point at `time` or later.
  place(time) {
    let low = 0;
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The last value that is a number, at `time` or before it.
  valueAt(time, reach = Infinity) {
    for (let place = this.place(time + 1e-9) - 1; place >= 0; place--) {
      if (time - this.times[place] > reach) return NaN;
      if (!Number.isNaN(this.values[place])) return this.values[place];
    }
    return NaN;
  }
}

// Columns of equal width between two times, at most `columns` of them, and at places that do not move with the window,
// so that what is drawn does not flicker.
export function grid(from, to, columns) {
  const rough = Math.max(to - from, 1e-6) / Math.max(columns, 1);
  const width = 2 ** Math.ceil(Math.log2(rough));
  const start = Math.floor(from / width) * width;
  return { start, width, count: Math.floor((to - start) / width) + 1 };
}

// Rows for a plot of several lines over the same times: [times, values, values, ...]. Of each line, a column has its
// least and greatest point; undefined stands where it has no point, null where it is interrupted.
export function sample(lines, from, to, columns) {
  const { start, width, count } = grid(from, to, columns);
  const rows = 2 * count;
  const used = new Uint8Array(rows + 1); // row 0 is the left edge
  const sampled = lines.map((line) => {
    const row = new Array(rows + 1);
    const { times, values } = line;
    let place = line.place(from);
    if (place > 0 && place < line.size) {
      const before = values[place - 1];
      const part = (from - times[place - 1]) / (times[place] - times[place - 1]);
      const value = before + part * (values[place] - before);
      if (!Number.isNaN(value)) {
        row[0] = value;
        used[0] = 1;
      }
    }
    while (place < line.size && times[place] <= to) {
      const column = Math.min(Math.floor((times[place] - start) / width), count - 1);
      const end = start + (column + 1) * width;
      let low = -1;
      let high = -1;
      let broken = false;
      do {
        const value = values[place];
        if (Number.isNaN(value)) broken = true;
        else {
          if (low < 0 || value < values[low]) low = place;
          if (high < 0 || value > values[high]) high = place;
        }
        place++;
      } while (place < line.size && times[place] < end && times[place] <= to);
      const at = 1 + 2 * column;
      row[at] = broken ? null : values[Math.min(low, high)];
      used[at] = 1;
      if (high >= 0 && (broken || low !== high)) {
        row[at + 1] = values[broken ? high : Math.max(low, high)];
        used[at + 1] = 1;
      }
    }
    return row;
  });
  const kept = [];
  for (let at = 0; at <= rows; at++) if (used[at]) kept.push(at);
  const time = (at) => (at === 0 ? from : start + (((at - 1) >> 1) + ((at - 1) & 1 ? 0.75 : 0.25)) * width);
  return [kept.map((at) => Math.min(Math.max(time(at), from), to)), ...sampled.map((row) => kept.map((at) => row[at]))];
}
