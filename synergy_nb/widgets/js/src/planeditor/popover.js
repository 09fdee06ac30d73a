// Sample rows of an operator, or the last results of a sink that runs, beside it.
import { Component } from "preact";
import { words } from "./editor.js";

const MOST_WIDTH = 560; // greatest width, pixels
const LEAST_HEIGHT = 120;
const ENOUGH_HEIGHT = 160; // free height below an operator from which on the rows are below it
const GAP = 8;
const DAY = /^\d{4}-\d\d-\d\d[ T](?=\d)/;

// Times without their day, where all of a column have the same.
function shortened(rows, column) {
  const days = new Set(rows.map((row) => (typeof row[column] === "string" ? (DAY.exec(row[column])?.[0] ?? "") : "")));
  return days.size === 1 && !days.has("") ? [...days][0] : "";
}

export class Sample extends Component {
  componentDidMount() {
    this.place();
  }
  componentDidUpdate() {
    this.place();
  }

  // Below the operator or above it, where there is more room, and always within the canvas.
  place() {
    const { editor, scene } = this.props;
    const { canvas } = editor;
    const node = scene.target?.nodes.get(editor.sample?.operator);
    if (!canvas || !node || !this.root) return;
    const [x, bottom] = canvas.toPane([node.x, node.y + node.height]);
    const [, top] = canvas.toPane([node.x, node.y]);
    const { clientWidth: width, clientHeight: height } = canvas.pane;
    const below = height - bottom >= Math.min(top, ENOUGH_HEIGHT);
    const room = Math.max(LEAST_HEIGHT, (below ? height - bottom : top) - 2 * GAP);
    Object.assign(this.root.style, {
      left: `${Math.max(GAP, Math.min(x, width - this.root.offsetWidth - GAP))}px`,
      top: below ? `${Math.max(GAP, Math.min(bottom + GAP, height - room - GAP))}px` : "",
      bottom: below ? "" : `${height - top + GAP}px`,
      maxWidth: `${Math.min(MOST_WIDTH, width - 2 * GAP)}px`,
      maxHeight: `${room}px`,
    });
  }

  render({ editor }) {
    const { operator, waiting, error, note, results, columns = [], rows = [] } = editor.sample;
    const what = results ? ["last row", `last ${rows.length} rows`] : ["first row", `first ${rows.length} rows`];
    const names = columns.map((each) => (Array.isArray(each) ? each[0] : (each.name ?? each)));
    const days = names.map((_, column) => shortened(rows, column));
    return (
      <section class="sample" ref={(element) => (this.root = element)} aria-label={`${results ? "results" : "sample rows"} of ${operator}`}>
        <header>
          <b>{operator}</b>
          <span class="soft">{waiting ? "reading…" : error || !rows.length ? "" : what[rows.length === 1 ? 0 : 1]}</span>
          <button type="button" aria-label="close the sample" onClick={() => editor.closeSample()}>
            ×
          </button>
        </header>
        {note && <p class="soft">{note}</p>}
        {error && <p class="bad">{words(error)}</p>}
        {!waiting && !error && (
          <div class="table nowheel" tabindex={0}>
            <table>
              <thead>
                <tr>
                  {names.map((name, column) => (
                    <th key={name} title={days[column] && `on ${days[column]}`}>
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row, index) => (
                  <tr key={index}>
                    {row.map((value, column) => (
                      <td key={column} class={typeof value === "number" ? "number" : ""}>
                        {value === null ? <i>null</i> : String(value).slice(days[column].length)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
            {!rows.length && <p class="soft">{results ? "No result has come yet." : "No rows: nothing of the sample comes this far."}</p>}
          </div>
        )}
      </section>
    );
  }
}
