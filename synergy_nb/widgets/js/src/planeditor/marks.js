// The events of the running application, as marks on an axis of time.

const GLYPHS = { bad: "▲", good: "✓", death: "▲", failed: "▲", takeover: "⇄", move: "⇢", migration: "⇢", started: "▸", ended: "■" };
const BAD = new Set(["bad", "death", "failed"]);
const LEAST_SECONDS = 30; // least length of the axis, seconds
const LEAST_GAP = 1.6; // least distance of two marks, percent of the axis

// Minutes and seconds; before the start, with a sign.
const clock = (seconds) => {
  const whole = Math.floor(Math.abs(seconds));
  return `${seconds <= -1 ? "−" : ""}${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};
const after = (seconds) => (seconds <= -1 ? `${clock(-seconds)} before the start` : `after ${clock(seconds)}`);

export function Marks({ live }) {
  const marks = live.marks ?? [];
  const start = live.start ?? Math.min(0, ...marks.map(({ t }) => t));
  const now = Math.max(live.now ?? 0, ...marks.map(({ t }) => t), start + LEAST_SECONDS);
  const share = (t) => `${Math.max(((t - start) / (now - start)) * 100, 0).toFixed(2)}%`; // what was earlier is at the start
  const step = [5, 10, 30, 60, 120, 300, 600, 1800, 3600].find((each) => (now - start) / each <= 8) ?? 7200;
  const ticks = Array.from({ length: Math.floor((now - start) / step) + 1 }, (_, index) => index * step); // after the start
  const last = marks.at(-1);
  let room = -Infinity; // no mark covers the one before it
  const places = marks.map(({ t }) => (room = Math.min(Math.max((Math.max(t - start, 0) / (now - start)) * 100, room + LEAST_GAP), 100)));
  return (
    <div class="marks-axis" role="group" aria-label="what happened, on an axis of time">
      <div class="axis">
        {ticks.filter((tick) => tick < 0.97 * (now - start)).map((tick) => (
          <span class="tick" key={tick} style={{ left: share(start + tick) }}>
            {clock(tick)}
          </span>
        ))}
        {marks.map(({ t, kind, text }, index) => (
          <button
            type="button"
            key={`${t} ${text}`}
            class={`mark${BAD.has(kind) ? " bad" : ""}`}
            style={{ left: `${places[index].toFixed(2)}%` }}
            title={`${clock(t - start)} ${text}`}
            aria-label={`${after(t - start)}: ${text}`}
          >
            {GLYPHS[kind] ?? "●"}
          </button>
        ))}
      </div>
      <p>{last ? `${clock(last.t - start)} ${last.text}` : "No peer has died, and nothing has moved or failed."}</p>
    </div>
  );
}
