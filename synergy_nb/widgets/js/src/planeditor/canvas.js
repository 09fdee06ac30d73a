// The canvas: operators and lines, moved and zoomed with the core of React Flow, which also drags lines between ports.
import { counted } from "../common/counted.js";
import { ConnectionMode, PanOnScrollMode, XYHandle, XYPanZoom } from "@xyflow/system";
import { Component } from "preact";
import { portShifts } from "./describe.js";
import { nearestLine, path } from "./geometry.js";
import { canvasKey } from "./keys.js";
import { LineView } from "./line.js";
import { marquee } from "./marquee.js";
import { NodeView } from "./node.js";
import { offer } from "./offer.js";
import { pressed } from "./palette.js";

const LIB = "synergy";
const PORT_REACH = 26; // pixels from a port within which a dragged line is connected to it
const LINE_REACH = 22; // pixels from a line within which a dragged operator is put on it
const MARGIN = 26; // pixels around the picture
const LEAST_ZOOM = 0.76; // zoom at which names can be read with ease
const SMALL_ZOOM = 0.6; // zoom at which they can still be read, if so all of the plan is seen, as in a narrow column

export class Canvas extends Component {
  constructor(props) {
    super(props);
    this.drag = null; // the line that is being dragged from a port
    this.view = { x: MARGIN, y: MARGIN, zoom: 1 };
    this.selecting = false; // a rectangle or a drag has just ended, and its click is to come
    this.own = false; // whether somebody has moved or zoomed the canvas
    this.fitted = "";
  }

  componentDidMount() {
    const { editor } = this.props;
    this.pan = XYPanZoom({
      domNode: this.pane,
      minZoom: 0.25,
      maxZoom: 2,
      translateExtent: [
        [-Infinity, -Infinity],
        [Infinity, Infinity],
      ],
      viewport: this.view,
      paneClickDistance: 3,
      onDraggingChange: () => {},
      onPanZoom: (event, view) => this.moved(view, Boolean(event)),
    });
    this.pan.update({
      noWheelClassName: "nowheel",
      noPanClassName: "nopan",
      onPaneContextMenu: undefined,
      userSelectionActive: false,
      panOnScroll: false,
      panOnScrollMode: PanOnScrollMode.Free,
      panOnScrollSpeed: 1,
      panOnDrag: true,
      preventScrolling: false, // the page scrolls; with Ctrl the wheel zooms
      zoomOnPinch: true,
      zoomOnScroll: false,
      zoomOnDoubleClick: false,
      zoomActivationKeyPressed: false,
      lib: LIB,
      onTransformChange: () => {},
      connectionInProgress: false,
      selectionOnDrag: false,
      paneClickDistance: 3,
    });
    this.room = [this.pane.clientWidth, this.pane.clientHeight]; // read here alone, as reading has the page laid out
    this.sizes = new ResizeObserver(() => {
      this.room = [this.pane.clientWidth, this.pane.clientHeight];
      this.fit(false);
    });
    this.sizes.observe(this.pane);
    this.pane.addEventListener("wheel", this.wheel, { passive: false, capture: true });
    marquee(this);
    editor.canvas = this;
    this.fit(false);
  }

  componentDidUpdate() {
    this.fit(false);
    this.focusWanted();
  }

  componentWillUnmount() {
    this.sizes.disconnect();
    this.pan.destroy();
    this.pane.removeEventListener("wheel", this.wheel, { capture: true });
    this.props.editor.canvas = null;
  }

  // Without Ctrl a wheel scrolls the notebook.
  wheel = (event) => {
    if (event.ctrlKey || event.metaKey) event.preventDefault();
    else event.stopPropagation();
  };

  // -- the part that is seen -----------------------------------------------------------------------------------------

  moved(view, own) {
    this.view = view;
    this.own ||= own;
    this.stage?.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.zoom})`);
    this.props.editor.moved?.();
  }

  // Shows all of the picture, or, where it would be too small, the operator at which people are.
  fit(always = true) {
    const { scene, editor } = this.props;
    const [width, height] = this.room;
    if (!width || !scene.target) return;
    const [wide, high] = scene.target.size;
    const key = [width, height, wide, high].join();
    if (always) this.own = false;
    if (this.own || (!always && key === this.fitted && this.last === editor.current)) return;
    this.fitted = key;
    this.last = editor.current;
    const whole = Math.min(1, (width - 2 * MARGIN) / wide, (height - 2 * MARGIN) / high);
    const zoom = !Number.isFinite(whole) ? 1 : whole < SMALL_ZOOM ? LEAST_ZOOM : whole;
    const along = (room, size, at) => {
      if (size * zoom <= room - MARGIN) return (room - size * zoom) / 2;
      return Math.min(MARGIN, Math.max(room - MARGIN - size * zoom, room / 2 - at * zoom));
    };
    const at = scene.target.nodes.get(editor.current);
    const x = along(width, wide, at ? at.x + at.width / 2 : 0);
    const y = along(height, high, at ? at.y + at.height / 2 : 0);
    this.show({ x: Math.round(x), y: Math.round(y), zoom });
  }

  show(view) {
    if (["x", "y", "zoom"].some((name) => Math.abs(view[name] - this.view[name]) > 0.01)) this.pan?.setViewport(view);
    this.moved(view, false);
  }

  zoom(factor) {
    const { clientWidth: width, clientHeight: height } = this.pane;
    const zoom = Math.max(0.25, Math.min(2, this.view.zoom * factor));
    const share = zoom / this.view.zoom;
    this.own = true;
    this.show({ x: width / 2 - (width / 2 - this.view.x) * share, y: height / 2 - (height / 2 - this.view.y) * share, zoom });
  }

  // Moves the canvas only as far as it must for an operator to be seen.
  reveal(id) {
    const place = this.props.scene.target?.nodes.get(id);
    if (!place) return;
    const { x, y, zoom } = this.view;
    const shift = (start, size, room) => {
      if (start < 12) return 12 - start;
      return start + size > room - 12 ? Math.max(room - 12 - start - size, 12 - start) : 0;
    };
    const right = shift(place.x * zoom + x, place.width * zoom, this.pane.clientWidth);
    const down = shift(place.y * zoom + y, place.height * zoom, this.pane.clientHeight);
    if (right || down) this.show({ x: x + right, y: y + down, zoom });
  }

  // From pixels of the screen to those of the picture, and back to those of the pane.
  at({ clientX, clientY }) {
    const box = this.pane.getBoundingClientRect();
    return [(clientX - box.left - this.view.x) / this.view.zoom, (clientY - box.top - this.view.y) / this.view.zoom];
  }
  toPane([x, y]) {
    return [x * this.view.zoom + this.view.x, y * this.view.zoom + this.view.y];
  }

  focusWanted() {
    const { editor } = this.props;
    const id = editor.wantsFocus?.node;
    if (id === undefined) return;
    editor.wantsFocus = null;
    if (id) this.reveal(id);
    this.focus(id);
  }

  focus(id) {
    const element = id && this.stage.querySelector(`[data-node="${CSS.escape(id)}"]`);
    (element || this.svg).focus({ preventScroll: true });
  }

  // -- connecting by the pointer -------------------------------------------------------------------------------------

  startConnection(event, handle) {
    const { editor } = this.props;
    const nodeId = handle.dataset.nodeid;
    const isTarget = handle.classList.contains("target");
    editor.aiming = null;
    XYHandle.onPointerDown(event, {
      connectionMode: ConnectionMode.Strict,
      connectionRadius: PORT_REACH,
      handleId: handle.dataset.handleid,
      nodeId,
      edgeUpdaterType: undefined,
      isTarget,
      domNode: this.pane,
      handleDomNode: handle,
      nodeLookup: this.lookup(),
      lib: LIB,
      flowId: this.props.flow,
      autoPanOnConnect: true,
      autoPanSpeed: 12,
      dragThreshold: 2,
      panBy: async ({ x, y }) => {
        this.show({ ...this.view, x: this.view.x + x, y: this.view.y + y });
        return true;
      },
      cancelConnection: () => this.dragged(null),
      onConnectStart: () => {},
      onConnect: ({ source, target, targetHandle }) => editor.connect(source, target, Number(targetHandle)),
      onConnectEnd: (ended, { toHandle }) => toHandle || this.droppedLine(ended, { id: nodeId, port: isTarget ? Number(handle.dataset.handleid) : null }),
      isValidConnection: ({ source, target }) => editor.canConnect(source, target),
      updateConnection: (drag) => this.dragged(drag),
      getTransform: () => [this.view.x, this.view.y, this.view.zoom],
      getFromHandle: () => this.drag?.fromHandle ?? null,
    });
  }

  // A line was dropped beside all ports: on an operator it is connected to that, on the empty canvas it offers what fits.
  droppedLine(event, { id, port }) {
    const { editor } = this.props;
    const place = this.dropAt(event);
    if (place === null || place.node === id) return;
    this.selecting = true; // the click that follows selects nothing
    setTimeout(() => (this.selecting = false));
    if (place.node !== undefined) return port === null ? editor.connect(id, place.node) : editor.connect(place.node, id, port);
    const box = this.pane.getBoundingClientRect();
    offer(editor, { id, port }, { x: event.clientX - box.left, y: event.clientY - box.top });
  }

  dragged(drag) {
    this.drag = drag;
    this.forceUpdate();
  }

  // Operators and their ports as the core of React Flow wants to know them.
  lookup() {
    const { scene } = this.props;
    const nodes = new Map();
    for (const { id, ports, output } of scene.shown) {
      const place = scene.target.nodes.get(id);
      const port = (type, handle, x, y, position) => ({ id: handle, nodeId: id, type, position, x: x - 5, y: y - 5, width: 10, height: 10 });
      const shifts = portShifts(ports.length);
      const middle = place.height / 2;
      const position = { x: place.x, y: place.y };
      nodes.set(id, {
        id,
        position,
        data: {},
        width: place.width,
        height: place.height,
        measured: { width: place.width, height: place.height },
        internals: {
          positionAbsolute: position,
          z: 0,
          userNode: { id, position, data: {} },
          handleBounds: {
            target: shifts.map((shift, index) => port("target", String(index), 0, middle + shift, "left")),
            source: output ? [port("source", "out", place.width, middle, "right")] : [],
          },
        },
      });
    }
    return nodes;
  }

  // -- an operator of the palette over the canvas --------------------------------------------------------------------

  // The place at which an operator of the palette would be dropped: {line}, {node} or {free: true}, or null outside.
  dropAt(event) {
    const box = this.pane.getBoundingClientRect();
    if (event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom) return null;
    const { scene } = this.props;
    const point = this.at(event);
    for (const [id, place] of scene.target.nodes)
      if (point[0] >= place.x && point[0] <= place.x + place.width && point[1] >= place.y && point[1] <= place.y + place.height) return { node: id };
    const key = nearestLine(scene.target.edges, point, LINE_REACH / this.view.zoom);
    const line = scene.lines.find((each) => each.key === key);
    return line ? { line: { from: line.from, to: line.to, port: line.port } } : { free: true };
  }

  // -- events --------------------------------------------------------------------------------------------------------

  pointerDown = (event) => {
    if (event.button > 0) return;
    const handle = event.target.closest?.(".synergy-flow__handle");
    if (handle) return this.startConnection(event, handle);
    const id = event.target.closest?.("[data-node]")?.dataset.node;
    if (id !== undefined) this.press(event, id);
  };

  // A drag of operators: their places are automatic, but they can be dropped on a line.
  press(event, id) {
    const { editor, drag } = this.props;
    const ids = editor.movedWith(id);
    const drop = ({ line, free, node }) => {
      if (line) editor.move(ids, line);
      else if (free || !ids.includes(node)) editor.tell("soft", "Places are automatic; dropped on a line, operators go there.");
    };
    const words = ids.length > 1 ? `move ${ids.length} operators` : `move ${id}`;
    pressed(event, (...moved) => drag({ words, drop }, ...moved), (dragged) => (this.selecting = dragged));
  }

  click = (event) => {
    const { editor } = this.props;
    if (this.selecting) return;
    const node = event.target.closest("[data-node]")?.dataset.node;
    const line = event.target.closest("[data-from]")?.dataset;
    const wrong = event.target.closest(".problem-badge, .due-badge") && editor.problemsOf(node)[0];
    if (wrong) editor.goToProblem(wrong);
    else if (node !== undefined) {
      editor.select(node, { more: event.shiftKey || event.ctrlKey || event.metaKey });
      editor.wantsFocus = { node };
      editor.changed();
    } else if (line) {
      editor.selectLine({ from: line.from, to: line.to, port: Number(line.port) });
      this.svg.focus({ preventScroll: true });
    } else {
      editor.clear();
      this.svg.focus({ preventScroll: true });
    }
  };

  doubleClick = (event) => {
    const { editor } = this.props;
    const node = event.target.closest("[data-node]")?.dataset.node;
    const line = event.target.closest("[data-from]")?.dataset;
    if (node !== undefined) editor.openForm(node);
    else if (line) editor.takeSample(line.from);
  };

  focusIn = (event) => {
    const { editor } = this.props;
    const node = event.target.closest("[data-node]")?.dataset.node;
    if (node === undefined || editor.current === node) return;
    editor.current = node;
    editor.changed();
  };

  copy = (event) => {
    const text = this.props.editor.copied();
    if (text === null) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
    event.stopPropagation();
    if (event.type === "cut") this.props.editor.remove();
  };

  paste = (event) => {
    const text = event.clipboardData.getData("text/plain");
    event.preventDefault();
    event.stopPropagation();
    if (text.trim()) this.props.editor.paste(text);
  };

  // -- drawing -------------------------------------------------------------------------------------------------------

  preview() {
    const { drag } = this;
    if (!drag?.from) return null;
    const back = drag.fromHandle?.type === "target";
    const ends = [
      [drag.from.x, drag.from.y],
      this.fromPane(drag),
    ];
    const kind = drag.isValid ? "good" : drag.isValid === false ? "bad" : "";
    return <path class={`preview ${kind}`} d={path(back ? ends.reverse() : ends)} />;
  }

  // The end of a dragged line: the port that takes it, else the pointer.
  fromPane({ to, toHandle, toNode }) {
    if (toHandle && toNode) return [toNode.internals.positionAbsolute.x + toHandle.x + 5, toNode.internals.positionAbsolute.y + toHandle.y + 5];
    return [(to.x - this.view.x) / this.view.zoom, (to.y - this.view.y) / this.view.zoom];
  }

  render({ editor, scene, places, dropping }) {
    const { aiming, selected, line: selectedLine } = editor;
    const target = aiming && aiming.targets[aiming.index];
    const aim = aiming?.moves ? null : target;
    const goal = dropping?.place?.line ?? (aiming?.moves ? target : null); // the line that is aimed at
    const first = editor.current ?? scene.shown[0]?.id;
    const drop = dropping?.place;
    const { x, y, zoom } = this.view;
    return (
      <div class={`pane${editor.selecting ? " selecting" : ""}`} ref={(element) => (this.pane = element)}>
        <svg
          class={`canvas${aiming || this.drag ? " connecting" : ""}`}
          ref={(element) => (this.svg = element)}
          tabindex={scene.shown.length ? -1 : 0}
          role="application"
          aria-label={`Plan ${editor.document.name ?? ""}: ${counted(scene.shown.length, "operator")}`}
          aria-describedby={this.props.hint}
          data-lm-suppress-shortcuts="true"
          onPointerDown={this.pointerDown}
          onClick={this.click}
          onDblClick={this.doubleClick}
          onKeyDown={(event) => canvasKey(editor, this, event)}
          onFocusIn={this.focusIn}
          onCopy={this.copy}
          onCut={this.copy}
          onPaste={this.paste}
        >
          <g class="stage" ref={(element) => (this.stage = element)} transform={`translate(${x},${y}) scale(${zoom})`}>
            {scene.lines.map((line) => (
              <LineView
                key={line.key}
                line={line}
                points={places.edges.get(line.key)}
                selected={selectedLine?.from === line.from && selectedLine?.to === line.to && selectedLine?.port === line.port}
                aimed={goal && goal.from === line.from && goal.to === line.to && goal.port === line.port}
              />
            ))}
            {scene.shown.map((shown) => (
              <NodeView
                key={editor.identity(shown.id)}
                shown={shown}
                place={places.nodes.get(shown.id)}
                state={[selected.has(shown.id) && "selected", drop?.node === shown.id && "aimed", aiming?.from === shown.id && "starting"].filter(Boolean).join(" ")}
                words={scene.words.get(shown.id)}
                tab={shown.id === first ? 0 : -1}
                aimed={aim?.id === shown.id ? aim.port : null}
                ruler={scene.ruler}
                flow={this.props.flow}
              />
            ))}
            {this.preview()}
            {aim && this.aimLine(aiming.from, aim, places)}
          </g>
        </svg>
        <div class="rectangle" hidden ref={(element) => (this.rectangle = element)} />
      </div>
    );
  }

  aimLine(from, { id, port }, places) {
    const [start, end] = [places.nodes.get(from), places.nodes.get(id)];
    if (!start || !end) return null;
    const shifts = portShifts(this.props.scene.shown.find((shown) => shown.id === id)?.ports.length ?? 1);
    const points = [
      [start.x + start.width, start.y + start.height / 2],
      [end.x, end.y + end.height / 2 + (shifts[port] ?? 0)],
    ];
    return <path class="preview good" d={path(points)} />;
  }
}
