// One operator on the canvas, as SVG.
import { colourOf } from "../common/peers.js";
import { memo } from "preact/compat";
import { FONT, portShifts } from "./describe.js";

const LINE = 16;

// Outline of an operator: a box with a round left end if it has no input, and a round right end if it has no output.
export function outline(width, height, left, right) {
  const one = left ? Math.min(height / 2, 17) : 7;
  const two = right ? Math.min(height / 2, 17) : 7;
  return (
    `M${one},0H${width - two}Q${width},0 ${width},${two}V${height - two}Q${width},${height} ${width - two},${height}` +
    `H${one}Q0,${height} 0,${height - one}V${one}Q0,0 ${one},0Z`
  );
}

function Ghosts({ words, width, height }) {
  return words.slice(0, 3).map((text, index) => (
    <g key={text} class="ghost" transform={`translate(8,${height + 4 + 18 * index})`}>
      <rect width={width - 16} height="15" rx="5" />
      <text x={(width - 16) / 2} y="11" text-anchor="middle">
        {index === 2 && words.length > 3 ? `and ${words.length - 2} more` : text}
      </text>
    </g>
  ));
}

function Box({ shown, width, ruler }) {
  const { height, inset, ports, peer, brief, status, owner } = shown;
  const rows = [
    ["kind", shown.kind],
    ["name", shown.id],
  ];
  if (brief) rows.push(["brief", brief]);
  if (status) rows.push(["status", status]);
  if (owner) rows.push(["owner", `⇄ shared with ${owner}`]);
  const left = 12 + inset;
  const room = width - left - 12;
  const top = (height - LINE * rows.length) / 2 + 11.5;
  return (
    <g>
      <path class="shape" d={outline(width, height, !ports.length, !shown.output)} />
      {rows.map(([style, text], index) => {
        const y = top + LINE * index;
        const dot = style === "status" && peer !== null;
        return (
          <g key={style}>
            {dot && <circle cx={left + 4} cy={y - 4} r="4" style={{ fill: `var(--${colourOf(peer)})` }} />}
            <text class={style} x={left + (dot ? 13 : 0)} y={y}>
              {ruler.fit(style in FONT ? style : "brief", text, room - (dot ? 13 : 0))}
            </text>
          </g>
        );
      })}
      {inset > 8 && <path class="divider" d={`M${inset + 4},8V${height - 8}`} />}
    </g>
  );
}

function Ports({ shown, width, aimed, flow }) {
  const { id, ports, height } = shown;
  const shifts = portShifts(ports.length);
  return (
    <g class="ports">
      {ports.map(({ name, taken }, port) => {
        const y = height / 2 + shifts[port];
        return (
          <g key={port} class={`port${taken ? " taken" : ""}${aimed === port ? " aimed" : ""}`}>
            {name && ports.length > 1 && (
              <text x="9" y={y + 3.5}>
                {name}
              </text>
            )}
            <circle class="dot" cx="0" cy={y} r="4.5" />
            <circle
              class="synergy-flow__handle nopan target connectable connectableend"
              data-id={`${flow}-${id}-${port}-target`}
              data-nodeid={id}
              data-handleid={port}
              data-handlepos="left"
              cx="0"
              cy={y}
              r="10"
            >
              <title>{`input ${port + 1}${name ? `: ${name}` : ""} of ${id}`}</title>
            </circle>
          </g>
        );
      })}
      {shown.output && (
        <g class="port out">
          <circle class="dot" cx={width} cy={height / 2} r="4.5" />
          <circle
            class="synergy-flow__handle nopan source connectable connectablestart"
            data-id={`${flow}-${id}-out-source`}
            data-nodeid={id}
            data-handleid="out"
            data-handlepos="right"
            cx={width}
            cy={height / 2}
            r="11"
          >
            <title>{`output of ${id}: drag to an input`}</title>
          </circle>
        </g>
      )}
    </g>
  );
}

// `mark`: an exclamation mark with the number of problems, or what the draft changes.
function Marks({ shown, width }) {
  const tag = { new: "+ new", changed: "~ changed", shared: "⇄ shared" }[shown.change];
  return (
    <g class="marks">
      {tag && (
        <g class={`tag ${shown.change}`} transform="translate(10,-11)">
          <rect width={tag.length * 5.6 + 12} height="15" rx="7.5" />
          <text x={tag.length * 2.8 + 6} y="11" text-anchor="middle">
            {tag}
          </text>
        </g>
      )}
      {shown.spark && (
        <text class="spark-name" x={width - 4} y="-11" text-anchor="end">
          Spark
        </text>
      )}
      {shown.toDo && (
        <g class="due-badge" transform={`translate(${width - 4},-3)`}>
          <title>{`to do: ${shown.toDo}`}</title>
          <circle r="8" />
          <text y="2" text-anchor="middle">
            …
          </text>
        </g>
      )}
      {shown.problems > 0 && (
        <g class="problem-badge" transform={`translate(${width - 4},-3)`}>
          <title>{shown.problem}</title>
          <circle r="9" />
          <text y="4" text-anchor="middle">
            {shown.problems > 1 ? shown.problems : "!"}
          </text>
        </g>
      )}
    </g>
  );
}

// The contents of an operator. They are drawn again only if they have changed, so not when the operator moves.
const Inside = memo(
  ({ shown, width, aimed, ruler, flow }) => {
    const { height } = shown;
    return (
      <g>
        <Ghosts words={shown.ghosts} width={width} height={height} />
        {shown.spark && <rect class="spark" x="-7" y="-7" width={width + 14} height={height + 14} rx="12" />}
        <path class="halo" d={outline(width, height, !shown.ports.length, !shown.output)} />
        {shown.tip && <title>{shown.tip}</title>}
        <Box shown={shown} width={width} ruler={ruler} />
        <Ports shown={shown} width={width} aimed={aimed} flow={flow} />
        <Marks shown={shown} width={width} />
      </g>
    );
  },
  (one, other) =>
    one.shown === other.shown && one.width === other.width && one.aimed === other.aimed && one.ruler === other.ruler,
);

export function NodeView({ shown, place, state, words, tab, aimed, ruler, flow }) {
  const kinds = ["node", state, shown.problems && "wrong", shown.unchecked && "unchecked", shown.change, shown.state, shown.spark && "on-spark"];
  return (
    <g
      class={`${kinds.filter(Boolean).join(" ")} nopan`}
      data-node={shown.id}
      transform={`translate(${Math.round(place.x * 10) / 10},${Math.round(place.y * 10) / 10})`}
      tabindex={tab}
      role="button"
      aria-roledescription="operator"
      aria-label={words}
      aria-pressed={state.includes("selected")}
      data-lm-suppress-shortcuts="true"
    >
      <Inside shown={shown} width={Math.round(place.width)} aimed={aimed} ruler={ruler} flow={flow} />
    </g>
  );
}
