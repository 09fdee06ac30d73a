// One line between two operators: its path, its rate, and how full the queue behind it is.
import { memo } from "preact/compat";
import { labelPlace, path } from "./geometry.js";

function Line({ line, points, selected, aimed }) {
  const drawn = path(points);
  const { from, to, port, label, queue, level } = line;
  const kinds = ["line", level, selected && "selected", aimed && "aimed", line.unchecked && "unchecked"];
  const share = queue === null ? 0 : Math.max(0, Math.min(1, queue));
  const full = level === "raised" || level === "high" ? `${Math.round(share * 100)} %` : "";
  const words = [label, full && `queue ${full}`].filter(Boolean).join(" · ");
  const [x, y] = labelPlace(points);
  return (
    <g class={kinds.filter(Boolean).join(" ")} data-from={from} data-to={to} data-port={port}>
      <path class="reach nopan" d={drawn} />
      {queue !== null && <path class="track" d={drawn} />}
      <path class="wire" d={drawn} />
      {queue !== null && share > 0 && (
        <path class="queue" d={drawn} pathLength="100" stroke-dasharray={`${(share * 100).toFixed(1)} 200`} stroke-dashoffset={(share * 100 - 100).toFixed(1)} />
      )}
      {words && (
        <text class="rate" x={x} y={y - 6} text-anchor="middle">
          {label}
          {full && <tspan class="full">{`${label ? " " : ""}${full}`}</tspan>}
        </text>
      )}
    </g>
  );
}

const same = (one, other) => one.length === other.length && one.every(([x, y], index) => x === other[index][0] && y === other[index][1]);

export const LineView = memo(
  Line,
  (one, other) =>
    one.line.key === other.line.key &&
    one.line.label === other.line.label &&
    one.line.queue === other.line.queue &&
    one.line.unchecked === other.line.unchecked &&
    one.selected === other.selected &&
    one.aimed === other.aimed &&
    (one.points === other.points || same(one.points, other.points)),
);
