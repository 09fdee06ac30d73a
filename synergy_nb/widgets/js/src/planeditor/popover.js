// Sample rows of an operator, beside it.
import { Component } from "preact";
import { words } from "./editor.js";

const WIDE = 440;

export class Sample extends Component {
  componentDidMount() {
    this.place();
  }
  componentDidUpdate() {
    this.place();
  }

  // Below the operator if there is room, else above it, and always within the canvas.
  place() {
    const { editor, scene } = this.props;
    const { canvas } = editor;
    const node = scene.target?.nodes.get(editor.sample?.operator);
    if (!canvas || !node || !this.root) return;
    const [x, y] = canvas.toPane([node.x, node.y + node.height + 10]);
    const [, top] = canvas.toPane([node.x, node.y - 10]);
    const { clientWidth: width, clientHeight: height } = canvas.pane;
    const { offsetWidth: own, offsetHeight: high } = this.root;
    const left = Math.max(8, Math.min(x, width - own - 8));
    const below = y + high <= height - 8 || top - high < 8 ? Math.max(8, Math.min(y, height - high - 8)) : top - high;
    Object.assign(this.root.style, { left: `${left}px`, top: `${below}px`, maxWidth: `${Math.min(WIDE, width - 16)}px` });
  }

  render({ editor }) {
    const { operator, waiting, error, columns = [], rows = [] } = editor.sample;
    const names = columns.map((each) => (Array.isArray(each) ? each[0] : (each.name ?? each)));
    return (
      <section class="sample" ref={(element) => (this.root = element)} aria-label={`sample rows of ${operator}`}>
        <header>
          <b>{operator}</b>
          <span class="soft">{waiting ? "reading…" : error ? "" : `first ${rows.length} rows`}</span>
          <button type="button" aria-label="close the sample" onClick={() => editor.closeSample()}>
            ×
          </button>
        </header>
        {error && <p class="bad">{words(error)}</p>}
        {!waiting && !error && (
          <div class="table nowheel" tabindex={0}>
            <table>
              <thead>
                <tr>
                  {names.map((name) => (
                    <th key={name}>{name}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row, index) => (
                  <tr key={index}>
                    {row.map((value, column) => (
                      <td key={column} class={typeof value === "number" ? "number" : ""}>
                        {value === null ? <i>null</i> : String(value)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
            {!rows.length && <p class="soft">No rows: nothing of the sample comes this far.</p>}
          </div>
        )}
      </section>
    );
  }
}
