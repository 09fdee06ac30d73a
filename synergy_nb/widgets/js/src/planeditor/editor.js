// The state of one view, and the actions of people on it. Nothing here draws: `changed` asks for a drawing.
import { counted } from "../common/counted.js";
import { ToDo, toDoWords } from "./to_do.js";
import { Edits } from "./edits.js";
import { chainOf, linesFor, moveOperations } from "./moving.js";
import { columnsFor, readsFrom, mostInputs, operatorOf, readersOf, unique } from "./operations.js";
import { earlierText, keepText } from "./earlier.js";
import * as yaml from "./yaml.js";

const KEPT_WORDS = 4; // announcements for screen readers that are kept, so that none replaces one that is not read yet
const AGAIN = 1000; // least time between two looks at results, milliseconds
const HINT = 8000; // time for which a hint is shown, milliseconds
const MOST_LETTERS = 60; // largest number of characters of a value that is read aloud

export class Editor {
  constructor(model, copy, changed) {
    this.model = model;
    this.edition = 0; // grows with every change
    this.settled = 0; // grows with every change of the plan or the view, not with those of the running application (ten a second)
    this.draw = changed;
    this.kinds = new Map();
    this.edits = new Edits((message) => model.send(message), copy, this.kinds);
    this.waiting = new Map(); // requests by id, for their replies
    this.selected = new Set();
    this.current = null; // the operator at which the keyboard is
    this.line = null; // the line that is selected: {from, to, port}
    this.pane = "form";
    this.identities = new Map(); // new name of an operator that was renamed here to its first name
    this.toDo = new ToDo(this);
    this.aiming = null; // a connection or a move whose target is chosen by keyboard (aims.js): {from, targets, index, words, finish}
    this.selecting = false; // a drag on the empty canvas selects what is within it
    this.checking = false;
    this.cost = null;
    this.sample = null;
    this.picking = null; // the file picker: {operator, listing, error}
    this.offered = null; // what fits at the end of a line that was dropped on the empty canvas: {id, port, place, kinds}
    this.help = false;
    this.refused = []; // what was refused at fields: {operator, field, value, message, ...}, `stays` while the field has this value
    this.rejected = null; // a text that was typed and could not be merged with what others changed
    this.said = []; // the last things for screen readers, each with a number
    this.canvas = null; // the canvas, once it is drawn
    this.note = null; // the outcome of the last request, for the status line
    this.silent = ""; // that the kernel does not answer, in words, for the status line
    this.wantsFocus = null; // what to focus after the next drawing: {node}, {field}, {palette}
    this.submitting = null; // the request to submit that has no answer yet
    this.earlier = earlierText(model); // what was edited here in a kernel that has ended
    this.readCatalogue();
    this.edits.document(model.get("document"));
    this.live = model.get("live") ?? null;
  }

  changed() {
    this.edition++;
    this.settled++;
    this.draw();
  }

  // The state of the running application has changed: canvas, marks and status are drawn again.
  follow(live) {
    const first = this.live === null || live === null;
    const turned = this.live?.state !== live?.state; // such as at the end
    this.live = live;
    if (this.note?.untilRuns && (live?.now ?? 0) > (live?.start ?? 0)) this.note = null;
    if (this.sample?.results) this.lookAgain(turned ? 0 : AGAIN);
    if (first) return this.changed();
    this.edition++;
    this.draw();
  }

  // -- the kernel ----------------------------------------------------------------------------------------------------

  readCatalogue() {
    const given = this.model.get("catalogue") ?? {};
    this.catalogue = { kinds: [], common: [], qos: [], templates: [], cluster: false, ...given };
    this.kinds.clear();
    for (const kind of this.catalogue.kinds) this.kinds.set(kind.kind, kind);
  }

  silence(words) {
    this.silent = words;
    this.changed();
  }

  received() {
    const before = this.edits.base;
    this.edits.document(this.model.get("document"));
    const { base } = this.edits;
    keepText(this.model);
    if (before !== base && !this.edits.pending.length) this.sayProblems(before, base);
    this.keepSelection();
    this.changed();
  }

  reply(content) {
    if (content.type === "applied") {
      const done = this.edits.answered(content);
      const problem = content.problem ?? content.error;
      if (done && problem) this.tell("bad", `Not done: ${done.label}. ${words(problem)}`);
      if (done) for (const each of content.problems ?? []) this.refuse(each.operator, each.field, each);
      if (done?.yaml && problem) this.rejected = done.yaml; // what was typed is not lost
      if (done && problem) for (const { op, operator, to } of done.operations ?? []) if (op === "rename") this.keepName(operator, to);
      for (const [wanted, given] of Object.entries(content.ids ?? {}))
        if (done && wanted !== given) {
          if (this.toDo.fresh.has(wanted)) this.toDo.added(given);
          if (this.picking?.operator === wanted) this.picking.operator = given;
          if (this.selected.has(wanted)) this.select(given);
        }
      this.changed();
      return;
    }
    const waiting = this.waiting.get(content.id);
    if (!waiting) return;
    this.waiting.delete(content.id);
    waiting(content);
    this.changed();
  }

  ask(message, answer) {
    const id = this.edits.send(message);
    if (this.edits.failed) return this.tell("bad", "There is no kernel: run the cell again.");
    this.waiting.set(id, answer);
    this.changed();
    return id;
  }

  // -- words ---------------------------------------------------------------------------------------------------------

  say(words) {
    this.said = [...this.said, { number: (this.said.at(-1)?.number ?? 0) + 1, words }].slice(-KEPT_WORDS);
    this.changed();
  }

  // The outcome of a request, or a hint. What is no error goes after a while or with the next action, unless it stays: until the
  // answer to a request, or with `untilRuns` until time has passed in the application.
  tell(tone, words, { untilRuns = false, stays = untilRuns || tone === "bad" } = {}) {
    const note = { tone, words, untilRuns, stays };
    this.note = note;
    if (!stays) setTimeout(() => this.note === note && this.dropHint(), HINT);
    this.say(words);
  }

  dropHint() {
    if (!this.note || this.note.stays) return;
    this.note = null;
    this.changed();
  }

  sayProblems(before, after) {
    const now = after.problems ?? [];
    const count = now.length;
    if (before && JSON.stringify(before.problems ?? []) === JSON.stringify(now)) return;
    const first = now.find((each) => !this.toDo.has(each));
    const where = first ? [first.operator, first.field].filter(Boolean).join(", ") : "";
    if (count && !first) this.say(`To do: ${now.map((each) => `${each.operator ? `${each.operator}, ` : ""}${each.operator ? toDoWords(each) : "a sink"}`).join("; ")}.`);
    else if (count) this.say(`${counted(count, "problem")}. ${where ? `${where}: ` : ""}${words(first)}`);
    else if ((before?.problems ?? []).length) this.say("No problems any more.");
  }

  // -- what is shown -------------------------------------------------------------------------------------------------

  get document() {
    return this.edits.shown;
  }

  operator(id) {
    return operatorOf(this.document, id);
  }

  // The first name of an operator: it stays when the operator is renamed, so that a field with the focus keeps it.
  identity(id) {
    return this.identities.get(id) ?? id;
  }

  get open() {
    return this.selected.size === 1 ? this.operator([...this.selected][0]) : undefined;
  }

  parametersOf(operator) {
    const kind = this.kinds.get(operator.kind);
    if (!kind) return [];
    const connectors = kind.connectors ?? {};
    if (!Object.keys(connectors).length) return kind.parameters ?? [];
    const connector = yaml.plain(operator.fields.connector) || Object.keys(connectors)[0];
    const own = connectors[connector] ?? [];
    const choice = {
      name: "connector",
      type: "choice",
      choices: Object.keys(connectors),
      help: connectors[connector]?.help || "what the source reads",
      required: true,
      default: "",
    };
    return [choice, ...(kind.parameters ?? []).filter(({ name }) => name !== "connector"), ...(own.parameters ?? own)];
  }

  // Problems by operator; those of the whole plan are at "".
  problemsOf(id) {
    return (this.document.problems ?? []).filter((each) => (each.operator ?? "") === id);
  }

  // Says at its field that a value was refused, until the next gesture; if it `stays` in the field, until that has another one.
  refuse(operator, field, problem, stays = false) {
    this.accept(operator, field);
    this.refused.push({ ...problem, operator: this.identity(operator), field, stays });
  }

  accept(operator, field) {
    this.refused = this.refused.filter((each) => each.operator !== this.identity(operator) || each.field !== field);
  }

  // The problems of fields, with what was refused there.
  problemsAtFields(id) {
    const present = (field) => yaml.plain(this.operator(id)?.fields[field] ?? "");
    const own = this.refused.filter((each) => each.operator === this.identity(id) && (!each.stays || present(each.field) === each.value));
    return [...this.problemsOf(id), ...own.map((each) => ({ ...each, operator: id }))];
  }

  portsOf({ kind, inputs }) {
    const [least = 0] = this.kinds.get(kind)?.inputs ?? [0];
    const most = mostInputs(this.kinds, kind);
    const count = most === Infinity ? Math.max(least, inputs.length + 1) : Math.max(most, inputs.length);
    const names = (most !== Infinity && this.kinds.get(kind)?.ports) || [];
    const unnamed = Math.max(0, most - names.length); // names are those of the last inputs
    return Array.from({ length: count }, (_, port) => names[port - unnamed] ?? "");
  }

  columnsFor(operator) {
    return columnsFor(this.document, operator);
  }

  hasOutput({ kind }) {
    return kind !== "sink";
  }

  canConnect(from, to) {
    const [source, target] = [this.operator(from), this.operator(to)];
    return Boolean(
      source && target && from !== to && this.hasOutput(source) && mostInputs(this.kinds, target.kind) > 0 && !readsFrom(this.document, from, to),
    );
  }

  // -- selection -----------------------------------------------------------------------------------------------------

  keepSelection() {
    const known = new Set(this.document.operators.map(({ id }) => id));
    for (const id of this.selected) if (!known.has(id)) this.selected.delete(id);
    if (this.picking && !known.has(this.picking.operator)) this.picking = null;
    if (this.offered && !known.has(this.offered.id)) this.offered = null;
    if (this.current !== null && !known.has(this.current)) this.current = null;
    if (this.line && this.operator(this.line.to)?.inputs[this.line.port] !== this.line.from) this.line = null;
  }

  select(id, { more = false, focus = false } = {}) {
    this.dropHint();
    if (!more) this.selected.clear();
    if (more && this.selected.has(id) && !focus) this.selected.delete(id);
    else if (id !== null) this.selected.add(id);
    this.current = id ?? this.current;
    this.line = null;
    if (id !== null && !more && this.pane === "") this.pane = "form";
    if (focus) this.wantsFocus = { node: id };
    this.changed();
  }

  // The keyboard goes to an operator; the selection stays.
  goTo(id) {
    this.current = id;
    this.wantsFocus = { node: id };
    this.changed();
  }

  selectLine(line) {
    this.dropHint();
    this.selected.clear();
    this.line = line;
    this.current = line.to;
    this.say(`Line from ${line.from} to ${line.to}. Delete removes it; an operator of the palette goes between.`);
  }

  selectAll() {
    this.selected = new Set(this.document.operators.map(({ id }) => id));
    this.line = null;
    this.saySelection();
  }

  // Selects the operators within a rectangle (`ids`), and those that were selected before it (`kept`).
  selectWithin(kept, ids) {
    const next = new Set([...kept, ...ids]);
    if (next.size === this.selected.size && [...next].every((id) => this.selected.has(id))) return;
    this.selected = next;
    this.current = ids.at(-1) ?? this.current;
    this.line = null;
    this.changed();
  }

  saySelection() {
    const count = this.selected.size;
    this.say(count === 1 ? `${[...this.selected][0]} selected.` : `${count} operators selected.`);
  }

  toggleSelecting() {
    this.selecting = !this.selecting;
    this.say(this.selecting ? "A drag on the canvas selects." : "A drag on the canvas moves it.");
  }

  clear() {
    this.dropHint();
    this.selected.clear();
    this.line = null;
    this.aiming = null;
    this.sample = null;
    this.picking = null;
    this.changed();
  }

  show(pane) {
    this.pane = pane;
    this.changed();
  }

  openForm(id, field = null) {
    this.dropHint();
    this.selected = new Set([id]);
    this.current = id;
    this.line = null;
    this.pane = "form";
    this.wantsFocus = { field: field ?? true };
    this.changed();
  }

  // -- gestures ------------------------------------------------------------------------------------------------------

  do(label, operations, said = `${label[0].toUpperCase()}${label.slice(1)}.`) {
    this.note = null;
    this.cost = null;
    this.refused = this.refused.filter(({ stays }) => stays);
    this.edits.edit(label, operations);
    this.keepSelection();
    this.say(said);
  }

  // An operator of the palette: between the ends of the selected line, else behind the selected operator, else alone. Behind an
  // operator, it goes between that one and all of its readers; `beside` these, it is one more reader.
  add(kind, { between = this.line, after = undefined, beside = false, fields = this.firstFields(kind) } = {}) {
    const operator = unique(this.document.operators, kind);
    const takes = mostInputs(this.kinds, kind) > 0;
    const goesBetween = takes && this.hasOutput({ kind });
    this.toDo.added(operator);
    if (between && goesBetween) {
      this.do(`add ${operator}`, [{ op: "insert", kind, operator, fields, between }], `Added ${operator} between ${between.from} and ${between.to}.`);
    } else {
      const behind = after === undefined ? this.open?.id : after;
      const from = behind && takes && this.hasOutput(this.operator(behind)) ? behind : null;
      const readers = from && goesBetween && !beside ? readersOf(this.document, from) : [];
      const operations = [
        { op: "add", kind, operator, fields, inputs: from ? [from] : [] },
        ...readers.map(({ id, port }) => ({ op: "connect", from: operator, to: id, port })),
      ];
      const before = readers.length ? `, before ${readers.map(({ id }) => id).join(", ")}` : "";
      this.do(`add ${operator}`, operations, `Added ${operator}${from ? ` after ${from}` : ""}${before}.`);
    }
    this.openForm(operator);
    return operator;
  }

  // An operator that is read by another one, at a port of it.
  addBefore(kind, to, port) {
    const operator = unique(this.document.operators, kind);
    this.toDo.added(operator);
    const operations = [{ op: "add", kind, operator, fields: this.firstFields(kind), inputs: [] }, { op: "connect", from: operator, to, port }];
    this.do(`add ${operator}`, operations, `Added ${operator} before ${to}.`);
    this.openForm(operator);
  }

  isCommon(field) {
    return this.catalogue.common.some(({ name }) => name === field);
  }

  firstFields(kind) {
    const connectors = Object.keys(this.kinds.get(kind)?.connectors ?? {});
    if (!connectors.length) return {};
    return { connector: connectors.includes("packets") ? "packets" : connectors[0] };
  }

  remove() {
    if (this.line) {
      const { line } = this;
      this.line = null;
      return this.do(`disconnect ${line.from} from ${line.to}`, [{ op: "disconnect", ...line }]);
    }
    const ids = [...this.selected];
    if (!ids.length && this.current) ids.push(this.current);
    if (!ids.length) return;
    const first = this.operator(ids[0]);
    const next = [...(first?.inputs ?? []), ...readersOf(this.document, ids[0]).map(({ id }) => id)].find((id) => !ids.includes(id));
    this.do(`remove ${ids.length > 1 ? `${ids.length} operators` : ids[0]}`, ids.map((operator) => ({ op: "remove", operator })));
    this.current = next ?? this.document.operators[0]?.id ?? null;
    this.selected = new Set(this.current ? [this.current] : []);
    this.wantsFocus = { node: this.current };
    this.changed();
  }

  connect(from, to, port = null) {
    this.aiming = null;
    if (!this.canConnect(from, to)) {
      const circle = from !== to && this.operator(to) && readsFrom(this.document, from, to);
      return this.tell("bad", circle ? `${to} comes before ${from}: a line would close a circle.` : `${from} cannot be an input of ${to}.`);
    }
    if (port !== null && this.operator(to).inputs[port] === from) return this.changed();
    this.do(`connect ${from} to ${to}`, [{ op: "connect", from, to, port }]);
  }

  // The operators that are moved together with one.
  movedWith(id) {
    return this.selected.has(id) ? [...this.selected] : [id];
  }

  move(ids, line) {
    const chain = chainOf(this.document, this.kinds, ids);
    if (typeof chain === "string") return this.tell("bad", chain);
    if (!linesFor(this.document, chain).some(({ to, port }) => to === line.to && port === line.port)) return this.tell("soft", "It is at that line already.");
    const what = chain.length > 1 ? `${chain.length} operators` : chain[0].id;
    this.do(`move ${what}`, moveOperations(this.document, chain, line), `Moved ${chain.map(({ id }) => id).join(", ")} between ${line.from} and ${line.to}.`);
    this.selected = new Set(ids);
    this.wantsFocus = { node: chain[0].id };
    this.changed();
  }

  rename(operator, to) {
    const wanted = to.trim();
    if (!wanted || wanted === operator) return false;
    if (this.operator(wanted)) {
      const message = `There is an operator ${wanted} already.`;
      this.refuse(operator, "id", { value: wanted, message });
      this.tell("bad", message);
      return false;
    }
    this.identities.set(wanted, this.identity(operator));
    this.do(`rename ${operator}`, [{ op: "rename", operator, to: wanted }], `${operator} is now ${wanted}.`);
    this.selected = new Set([wanted]);
    this.current = wanted;
    return true;
  }

  // A name was refused: the operator is selected by the one that it has, so that its form stays open.
  keepName(operator, refused) {
    if (!this.selected.delete(refused) || !this.operator(operator)) return;
    this.selected.add(operator);
    this.current = operator;
  }

  set(operator, field, value) {
    if ((this.operator(operator)?.fields[field] ?? null) === value) return;
    this.toDo.filled(operator, field);
    const said = value === null ? `Removed ${field} of ${operator}.` : `${field} of ${operator}: ${value.slice(0, MOST_LETTERS)}.`;
    this.do(`change ${field} of ${operator}`, [{ op: "set", operator, field, value }], said);
  }

  setQos(field, value) {
    if ((this.document.qos?.[field] ?? null) === value) return;
    this.do(`change ${field}`, [{ op: "qos", field, value }], value === null ? `Removed ${field}.` : `${field}: ${value}.`);
  }

  setName(value) {
    if (value.trim() && value.trim() !== this.document.name) this.do("rename the plan", [{ op: "name", value: value.trim() }]);
  }

  undo(type = "undo") {
    const label = this.edits[type]();
    this.note = this.cost = null;
    this.keepSelection();
    this.say(label ? `${type === "undo" ? "Undone" : "Done again"}: ${label}.` : `Nothing to ${type}.`);
  }

  setText(text, version, continues = false) {
    if (text === this.document.yaml) return;
    this.note = this.cost = null;
    this.edits.text("edit the text", text, version, continues);
    this.keepSelection();
    this.say("Text changed.");
  }

  // Takes what was edited before the kernel was restarted, or forgets it.
  takeEarlier() {
    const text = this.earlier;
    this.earlier = null;
    this.setText(text, this.edits.base.version);
  }
  dropEarlier() {
    this.earlier = null;
    this.changed();
  }

  useTemplate(template) {
    this.edits.template(`template ${template.title ?? template.name}`, template);
    const first = this.document.operators[0]?.id ?? null;
    this.say(`Template ${template.title ?? template.name}.`);
    this.select(first, { focus: true });
  }

  // -- copy and paste ------------------------------------------------------------------------------------------------

  copied() {
    const ids = this.selected.size ? this.selected : new Set(this.current ? [this.current] : []);
    const operators = this.document.operators.filter(({ id }) => ids.has(id));
    if (!operators.length) return null;
    this.say(`Copied ${operators.length > 1 ? `${operators.length} operators` : operators[0].id} as YAML.`);
    const whole = operators.length === this.document.operators.length && this.document.name ? this.document : null;
    return yaml.operatorsText(operators, whole);
  }

  paste(text) {
    const before = new Set(this.document.operators.map(({ id }) => id));
    this.do("paste", [{ op: "paste", yaml: text }], "Pasted.");
    const fresh = this.document.operators.map(({ id }) => id).filter((id) => !before.has(id));
    if (!fresh.length) return;
    this.selected = new Set(fresh);
    this.current = fresh[0];
    this.wantsFocus = { node: fresh[0] };
    this.say(`Pasted ${fresh.join(", ")}.`);
  }

  // -- what the kernel is asked for ----------------------------------------------------------------------------------

  takeSample(operator) {
    if (this.hasResults(operator)) return this.takeResults(operator);
    this.sample = { operator, waiting: true };
    this.say(`Sample rows of ${operator}…`);
    this.ask({ type: "sample", operator }, (answer) => {
      if (this.sample?.operator !== operator) return;
      this.sample = { operator, ...answer };
      this.say(answer.error ? words(answer.error) : `${counted(answer.rows.length, "row")} of ${operator}.`);
    });
  }

  // Whether an operator is a sink of the application that runs, or has run: its rows are results.
  hasResults(operator) {
    return this.operator(operator)?.kind === "sink" && Boolean(this.live?.peers?.[operator]) && !this.document.draft?.added?.includes(operator);
  }

  // Shows the last results of a sink, which are asked for again as the application runs on.
  takeResults(operator) {
    this.sample = { operator, waiting: true, results: true };
    this.askResults();
    this.say(`Results of ${operator}…`);
  }

  // Asks for the results again, `least` milliseconds after the answer before.
  lookAgain(least) {
    const { sample } = this;
    if (sample.asked) return;
    const left = sample.at + least - performance.now();
    if (left <= 0) return this.askResults();
    sample.waits ??= setTimeout(() => this.sample === sample && !sample.asked && this.askResults(), left);
  }

  askResults() {
    const { sample } = this;
    const { operator } = sample;
    sample.asked = true;
    this.ask({ type: "results", operator }, (answer) => {
      if (this.sample?.operator !== operator || !this.sample.results) return;
      this.sample = { operator, results: true, at: performance.now(), ...answer };
      if (sample.waiting) this.say(answer.error ? words(answer.error) : `The last ${counted(answer.rows.length, "row")} of ${operator}.`);
    });
  }

  dropCost() {
    this.cost = null;
    this.changed();
  }

  showPlan() {
    this.clear();
    this.show("form");
  }

  toggleHelp() {
    this.help = !this.help;
    this.changed();
  }

  closeSample() {
    this.wantsFocus = { node: this.sample.operator };
    this.sample = null;
    this.changed();
  }

  save() {
    this.ask({ type: "save" }, ({ path, error }) => this.tell(error ? "bad" : "soft", error ? words(error) : `Saved in ${path}.`));
  }

  // Fields that are to fill in are problems from now on; goes to the first one, and to the next one where it is there already.
  showProblems() {
    const ended = this.toDo.end();
    const problems = this.document.problems ?? [];
    if (!problems.length) return this.changed();
    const next = ended ? 0 : (problems.findIndex((each) => JSON.stringify(each) === this.wentTo) + 1) % problems.length;
    this.goToProblem(problems[next]);
  }

  // Goes to the field of a problem.
  goToProblem(problem) {
    this.wentTo = JSON.stringify(problem);
    const { operator, field = "" } = problem;
    if (operator) return this.openForm(operator, { problem: field });
    this.showPlan();
    this.wantsFocus = { field: { problem: field.replace(/^qos\./, "") } };
    this.changed();
  }

  check() {
    this.toDo.end();
    this.checking = !this.checking;
    this.cost = null;
    if (!this.checking) return this.say("Expected rates and loads are hidden.");
    this.say("Expected rates and loads are at the operators.");
    if (!this.catalogue.cluster || this.document.problems?.length) return;
    this.cost = { waiting: true };
    this.ask({ type: "cost" }, (answer) => {
      this.cost = answer;
      this.say(answer.error ? words(answer.error) : answer.text);
    });
  }

  submit() {
    if (this.submitting) return;
    this.tell("soft", "Submitting…", { stays: true });
    this.submitting = this.ask({ type: "submit" }, ({ application, advice = "", error }) => {
      this.submitting = null;
      if (!error) {
        this.checking = false;
        this.cost = null;
        const [sink, ...others] = this.document.operators.filter(({ kind }) => kind === "sink");
        if (sink && !others.length) this.takeResults(sink.id); // what whoever submits waits for
      }
      const done = `Submitted${application ? ` as ${application}` : ""}. ${advice}`.trim();
      this.tell(error ? "bad" : "good", error ? words(error) : done, { untilRuns: !error && advice !== "" });
    });
  }

  stop() {
    this.tell("soft", "Stopping…", { stays: true });
    this.ask({ type: "stop" }, ({ error }) => this.tell(error ? "bad" : "soft", error ? words(error) : "Stopped."));
  }
}

// The words of a problem beside its field, without the names of operator and field.
export const briefly = (problem) => {
  if (!problem.expected) return words(problem);
  const value = problem.value ? `${problem.value}: ` : "";
  return `${value}expected ${problem.expected}`;
};

// The words of a problem, with operator and field.
export const words = (problem) =>
  typeof problem === "string" ? problem : (problem?.message ?? (problem?.expected ? `expected ${problem.expected}` : ""));
