// Numbers as people read them: three significant digits and a unit that fits, as synergy_nb.reporting.formatting has them.
const three = (value) => String(Number(value.toPrecision(3)));
const thousands = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export function seconds(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0 s";
  if (value < 0) return `-${seconds(-value)}`;
  if (value < 1e-3) return `${three(value * 1e6)} µs`;
  if (value < 0.9995) return `${three(value * 1e3)} ms`;
  if (value < 119.5) return `${three(value)} s`;
  const minutes = Math.round(value / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function amount(value) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1e6) return `${three(value / 1e6)} M`;
  return Number.isInteger(value) || Math.abs(value) >= 1000 ? thousands.format(value) : three(value);
}

export const rate = (value) => (Number.isFinite(value) ? `${amount(value)}/s` : "–");

export const share = (value) => (Number.isFinite(value) ? `${three(value * 100)} %` : "–");

// Time since a beginning: 0:05, 12:30, 1:02:30; with tenths where a step is shorter than a second.
export function elapsed(value, step = 1) {
  const sign = value < -1e-9 ? "-" : "";
  const digits = step < 1 ? (step < 0.1 ? 2 : 1) : 0;
  const total = Number(Math.abs(value).toFixed(digits));
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  const rest = (total % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return hours ? `${sign}${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${sign}${minutes}:${rest}`;
}
