// The stage: one request, moment by moment. The kernel sends the whole replay once; the number of the moment and the
// arrangement of the peers are shared with it.
import { Arrangement } from "./protocolstage/arrangement.js";
import { build, KINDS } from "./protocolstage/page.js";
import { announced, stateAt } from "./protocolstage/state.js";
import "./protocolstage.css";

const ASK = 2000; // milliseconds until the replay is requested again
const PACES = { slow: 1600, normal: 800, fast: 250 }; // milliseconds between two moments

class Stage {
  constructor({ model, el, signal }) {
    this.model = model;
    this.replay = null;
    this.timer = null; // of playing
    this.pace = "normal";
    this.hidden = new Set(); // kinds of moments that are skipped
    this.page = build(el, {
      go: (step) => this.go(step),
      move: (by) => this.move(by),
      play: () => this.play(),
      pace: (pace) => this.choosePace(pace),
      arrange: (arrangement) => this.arrange(arrangement),
      toggle: (kind) => this.toggle(kind),
      hover: (peers) => this.picture?.highlight(peers),
    });
    this.page.root.addEventListener("keydown", (event) => this.key(event));
    this.onMessage = (content) => this.receive(content);
    this.onShared = () => this.show();
    model.on("msg:custom", this.onMessage);
    model.on("change:step", this.onShared);
    model.on("change:arrangement", this.onShared);
    this.ask();
    signal?.addEventListener("abort", () => this.close());
  }

  // -- the kernel ------------------------------------------------------------------------------------------------------

  ask() {
    if (this.replay || this.closed) return;
    try {
      this.model.send({ kind: "ready" });
    } catch {
      return; // there is no kernel any more
    }
    this.asking = setTimeout(() => this.ask(), ASK);
  }

  receive(content) {
    if (content.kind !== "stage" || this.replay) return;
    clearTimeout(this.asking);
    this.replay = content.replay;
    this.picture = new Arrangement(this.page.picture, this.replay);
    const counts = new Map();
    for (const { kind } of this.replay.moments) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    this.page.begin(this.replay, counts);
    this.show();
  }

  share(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
    this.show();
  }

  get step() {
    return Math.max(0, Math.min(this.model.get("step"), this.last));
  }

  get last() {
    return Math.max((this.replay?.moments.length ?? 0) - 1, 0);
  }

  // -- moving ------------------------------------------------------------------------------------------------------------

  go(step) {
    if (!this.replay) return;
    this.share("step", Math.max(0, Math.min(step, this.last)));
  }

  // The next moment in a direction that is not hidden; none beyond it stays.
  move(by) {
    if (!this.replay) return;
    const { moments } = this.replay;
    for (let step = this.step + by; step >= 0 && step <= this.last; step += by)
      if (!this.hidden.has(moments[step].kind)) return this.go(step);
    if (this.timer) this.play();
  }

  play() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = null;
    } else if (this.replay) {
      if (this.step >= this.last) this.go(0);
      this.timer = setInterval(() => this.move(1), PACES[this.pace]);
    }
    this.page.playing(Boolean(this.timer));
  }

  choosePace(pace) {
    this.pace = pace;
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = setInterval(() => this.move(1), PACES[pace]);
  }

  arrange(arrangement) {
    this.share("arrangement", arrangement);
  }

  toggle(kind) {
    if (this.hidden.has(kind)) this.hidden.delete(kind);
    else this.hidden.add(kind);
    this.page.kinds(this.hidden);
  }

  // Keys of the stage; a notebook must not take them for its own, where x would cut the cell.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    const within = event.target.closest("input, select, button");
    const slider = within?.type === "range";
    const acts = {
      ArrowRight: () => this.move(1),
      ArrowLeft: () => this.move(-1),
      n: () => this.move(1),
      p: () => this.move(-1),
      Home: () => this.go(0),
      End: () => this.go(this.last),
      m: () => this.replay?.peers.some((peer) => peer.x !== null) && this.arrange(this.model.get("arrangement") === "map" ? "ring" : "map"),
    };
    if (!within || slider) acts[" "] = () => this.play();
    const act = within?.tagName === "SELECT" ? null : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // -- showing -----------------------------------------------------------------------------------------------------------

  show() {
    if (!this.replay || this.closed) return;
    const step = this.step;
    const arrangement = this.model.get("arrangement");
    const state = stateAt(this.replay, step);
    const moment = this.replay.moments[step];
    this.picture.show(arrangement, moment, state);
    this.page.show(step, moment, state, arrangement);
    clearTimeout(this.announcing);
    this.announcing = setTimeout(() => this.page.announce(announced(step, this.replay)), this.timer ? 2000 : 150);
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.asking);
    clearTimeout(this.announcing);
    clearInterval(this.timer);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:step", this.onShared);
    this.model.off("change:arrangement", this.onShared);
  }
}

export { KINDS };
export default {
  render(context) {
    const stage = new Stage(context);
    return () => stage.close();
  },
};
