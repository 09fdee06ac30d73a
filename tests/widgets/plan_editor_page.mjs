// The page of the plan editor without a browser: what it reads and writes as YAML, what it shows before the kernel has
// answered, and where it puts operators. Run by test_plan_editor_page.py, with Node's own test runner.
import assert from "node:assert/strict";
import { test } from "node:test";

const page = new URL("../../synergy_nb/widgets/js/src/planeditor/", import.meta.url);
const { Edits } = await import(new URL("edits.js", page));
const { nearestLine, path } = await import(new URL("geometry.js", page));
const { keyOf, layout } = await import(new URL("layout.js", page));
const { applied, columnsFor, readsFrom, touched, unique } = await import(new URL("operations.js", page));
const yaml = await import(new URL("yaml.js", page));

const KINDS = new Map(
  Object.entries({ source: [0, 0], filter: [1, 1], join: [2, 2], union: [2, null], compare: [1, 2], sink: [1, 1] }).map(([kind, inputs]) => [kind, { kind, inputs }]),
);
const operator = (id, kind, inputs = [], fields = {}) => ({ id, kind, inputs, fields });
const document = (...operators) => ({ version: 1, name: "plan", qos: {}, yaml: "", operators, columns: {}, problems: [], undo: "", redo: "" });
const inputs = ({ operators }) => Object.fromEntries(operators.map(({ id, inputs }) => [id, inputs]));
const chain = () => document(operator("a", "source"), operator("b", "filter", ["a"]), operator("c", "sink", ["b"]));

// -- YAML ----------------------------------------------------------------------------------------------------------------

test("every text that is written is read as itself", () => {
  const texts = ["link = 'B'", "a: b", "x # y", "'x' = link", "", " a ", "true", "12", "1e3", "-", "- a", "[a", "a]", "{", "*", "é ü", "a\nb", '"', "#", "null", "~", "a,b", "@x", "0x1f", "yes", "a:", ":a"];
  for (const each of texts) {
    assert.equal(yaml.read(yaml.text(each)), each, yaml.text(each));
    assert.deepEqual(yaml.read(yaml.list([each, "z"])), [each, "z"]);
    assert.deepEqual([...yaml.read(yaml.mapping([["k", each], ["é", "z"]]))], [["k", each], ["é", "z"]]);
  }
});

test("only what needs quotes gets them", () => {
  assert.equal(yaml.text("link = 'B'"), "link = 'B'");
  assert.equal(yaml.text("'B' = link"), "'''B'' = link'");
  assert.equal(yaml.text("12"), "'12'");
  assert.equal(yaml.typed("12"), "12");
  assert.equal(yaml.typed("[['2 s', '400/s']]"), "[['2 s', '400/s']]");
  assert.equal(yaml.typed("credit: risk"), "'credit: risk'");
  assert.equal(yaml.typed("[a"), "'[a'");
});

test("a plan in block and flow style is read", () => {
  const found = yaml.planOf(`# a comment
format: 1
name: 'top: pairs'
qos:
  delay: 2 s
operators:
  packets: {kind: source, connector: packets, seed: 1, signature: [[2 s, 400/s],
      [8 s, 25/s]]}   # goes on
  traffic:
    kind: aggregate
    input: packets   # read
    by:
    - source
    - destination
    values:
      total: sum(bytes)
      "n": count(*)
  both: {kind: join, inputs: [packets, traffic]}
`);
  assert.equal(found.name, "top: pairs");
  assert.deepEqual(found.qos, { delay: "2 s" });
  assert.deepEqual(found.operators, [
    operator("packets", "source", [], { connector: "packets", seed: "1", signature: "[[2 s, 400/s], [8 s, 25/s]]" }),
    operator("traffic", "aggregate", ["packets"], { by: "[source, destination]", values: "{total: sum(bytes), n: count(*)}" }),
    operator("both", "join", ["packets", "traffic"]),
  ]);
});

test("what the page cannot read it leaves to the kernel", () => {
  for (const text of ["a: &x 1", "a: |\n  b", "a: !t b", "a: [b", "a: {b: c", "- a\nb: c", "a: b\n   c: d\n  e: f"]) assert.throws(() => yaml.read(text), yaml.NotRead, text);
  const before = chain();
  assert.equal(applied(before, [{ op: "paste", yaml: "operators: {x: &y {kind: filter}}" }], KINDS), before);
});

test("operators that are copied are a piece of a plan", () => {
  const given = [operator("a b", "filter", ["x"], { where: "link = 'B'" }), operator("j", "join", ["a b", "y"], { on: "[k]", note: "first:\n  second: 1" })];
  const text = yaml.operatorsText(given);
  assert.deepEqual(yaml.planOf(text).operators.map(({ id, kind, inputs }) => ({ id, kind, inputs })), given.map(({ id, kind, inputs }) => ({ id, kind, inputs })));
  assert.match(text, /    where: link = 'B'\n/);
});

// -- operations ----------------------------------------------------------------------------------------------------------

test("removing heals, and an operator goes between two", () => {
  assert.deepEqual(inputs(applied(chain(), [{ op: "remove", operator: "b" }], KINDS)), { a: [], c: ["a"] });
  const insert = { op: "insert", kind: "filter", operator: "d", fields: {}, between: { from: "b", to: "c", port: 0 } };
  assert.deepEqual(inputs(applied(chain(), [insert], KINDS)), { a: [], b: ["a"], c: ["d"], d: ["b"] });
  const joined = document(operator("a", "source"), operator("b", "source"), operator("j", "join", ["a", "b"]));
  assert.deepEqual(inputs(applied(joined, [{ op: "remove", operator: "a" }], KINDS)), { b: [], j: ["b"] });
});

test("a connection takes a free port, else it replaces", () => {
  const before = document(operator("a", "source"), operator("b", "source"), operator("f", "filter", ["a"]), operator("u", "union", ["a", "f"]), operator("j", "join", ["a"]));
  const connect = (to, port = null) => inputs(applied(before, [{ op: "connect", from: "b", to, port }], KINDS))[to];
  assert.deepEqual([connect("f"), connect("u"), connect("u", 0), connect("j"), connect("j", 1), connect("j", 0)], [["b"], ["a", "f", "b"], ["b", "f"], ["a", "b"], ["a", "b"], ["b"]]);
  assert.deepEqual(inputs(applied(before, [{ op: "disconnect", from: "a", to: "u", port: 0 }], KINDS)).u, ["f"]);
});

test("readers follow a name, and a field may be one entry of a mapping", () => {
  const before = document(operator("a", "source"), operator("b", "filter", ["a"], { values: "{x: sum(y)}" }));
  assert.deepEqual(inputs(applied(before, [{ op: "rename", operator: "a", to: "z" }], KINDS)), { z: [], b: ["z"] });
  const set = (field, value) => applied(before, [{ op: "set", operator: "b", field, value }], KINDS).operators[1].fields;
  assert.deepEqual(set("values.n", "count(*)"), { values: "{x: sum(y), n: count(*)}" });
  assert.deepEqual(set("values.x", null), {});
  assert.deepEqual(set("where", "y > 1"), { values: "{x: sum(y)}", where: "y > 1" });
  assert.deepEqual(before.operators[1].fields, { values: "{x: sum(y)}" });
});

test("what is pasted gets ids of its own and keeps what it reads", () => {
  const after = applied(chain(), [{ op: "paste", yaml: "operators:\n  b: {kind: filter, input: a}\n  d: {kind: sink, input: b}\n  e: {kind: sink, input: gone}\n" }], KINDS);
  assert.deepEqual(inputs(after), { a: [], b: ["a"], c: ["b"], b_2: ["a"], d: ["b_2"], e: [] });
  assert.equal(unique(after.operators, "b"), "b_3");
});

test("a whole plan that is pasted into an empty one keeps its name and its requirements", () => {
  const given = chain();
  const text = yaml.operatorsText(given.operators, { name: "Größe: 1", qos: { delay: "2 s" } });
  const after = applied(document(), [{ op: "paste", yaml: text }], KINDS);
  assert.deepEqual([after.name, after.qos, inputs(after)], ["Größe: 1", { delay: "2 s" }, inputs(given)]);
  assert.deepEqual([applied(given, [{ op: "paste", yaml: text }], KINDS).name, yaml.operatorsText([])], ["plan", "operators:\n"]);
});

test("columns come from the inputs, over operators that the kernel has not seen yet", () => {
  const before = { ...document(operator("a", "source"), operator("b", "filter", ["a"]), operator("c", "filter", ["b"])), columns: { a: { x: "int" } } };
  assert.deepEqual(columnsFor(before, before.operators[2]), { x: "int" });
  assert.deepEqual(columnsFor(before, before.operators[0]), {});
  assert.deepEqual([readsFrom(before, "c", "a"), readsFrom(before, "a", "c")], [true, false]);
});

// -- edits before the kernel has answered --------------------------------------------------------------------------------

function edits(first = chain()) {
  const sent = [];
  const made = new Edits((message) => sent.push(message), "p", KINDS);
  made.document(first);
  return { made, sent };
}
const remove = (operator) => [{ op: "remove", operator }];

test("an edit is shown at once, marked as not checked, and settled by the document that has it", () => {
  const { made, sent } = edits();
  made.edit("remove b", remove("b"));
  assert.deepEqual(inputs(made.shown), { a: [], c: ["a"] });
  assert.deepEqual([...made.unchecked], ["c"]);
  assert.deepEqual(sent, [{ type: "edit", version: 1, gesture: "remove b", operations: remove("b"), id: "p-1" }]);
  made.answered({ id: "p-1", version: 2 });
  assert.equal(made.pending.length, 1, "the document is still on its way");
  made.document({ ...applied(chain(), remove("b"), KINDS), version: 2 });
  assert.deepEqual([made.pending.length, made.unchecked.size, inputs(made.shown)], [0, 0, { a: [], c: ["a"] }]);
});

test("edits of others come in between, and ours stay above them in order", () => {
  const { made, sent } = edits();
  made.edit("rename b", [{ op: "rename", operator: "b", to: "x" }]);
  made.edit("connect", [{ op: "connect", from: "a", to: "c", port: 0 }]);
  made.document({ ...applied(chain(), [{ op: "add", kind: "sink", operator: "s", inputs: ["b"] }], KINDS), version: 2 });
  assert.deepEqual(inputs(made.shown), { a: [], x: ["a"], c: ["a"], s: ["x"] });
  assert.deepEqual(sent.map(({ id }) => id), ["p-1", "p-2"]);
  made.document({ ...chain(), version: 1 });
  assert.equal(made.base.version, 2, "an older document changes nothing");
});

test("an edit that cannot be applied goes, and nothing else does", () => {
  const { made } = edits();
  made.edit("remove b", remove("b"));
  made.edit("add", [{ op: "add", kind: "sink", operator: "s", inputs: ["a"] }]);
  const gone = made.answered({ id: "p-1", version: 1, problem: "operator 'b' is gone" });
  assert.equal(gone.label, "remove b");
  assert.deepEqual(inputs(made.shown), { a: [], b: ["a"], c: ["b"], s: ["a"] });
});

test("undo and redo need no kernel where this page knows what was", () => {
  const { made, sent } = edits();
  made.edit("remove b", remove("b"));
  made.edit("remove c", remove("c"));
  assert.equal(made.undo(), "remove c");
  assert.deepEqual([inputs(made.shown), made.shown.undo, made.shown.redo], [{ a: [], c: ["a"] }, "remove b", "remove c"]);
  assert.equal(made.undo(), "remove b");
  assert.deepEqual([inputs(made.shown), made.undo()], [{ a: [], b: ["a"], c: ["b"] }, null]);
  assert.equal(made.redo(), "remove b");
  assert.deepEqual(inputs(made.shown), { a: [], c: ["a"] });
  assert.deepEqual(sent.map(({ type }) => type), ["edit", "edit", "undo", "undo", "redo"]);
});

test("without a kernel nothing is lost", () => {
  const made = new Edits(() => assert.fail("no kernel"), "p", KINDS);
  made.document(chain());
  made.edit("remove b", remove("b"));
  assert.deepEqual([made.failed, inputs(made.shown)], [true, { a: [], c: ["a"] }]);
});

test("what an edit has touched", () => {
  const before = chain();
  assert.deepEqual([...touched(before, applied(before, [{ op: "set", operator: "b", field: "where", value: "x" }], KINDS))], ["b"]);
  assert.deepEqual([...touched(before, structuredClone(before))], []);
});

// -- layout --------------------------------------------------------------------------------------------------------------

function random(seed) {
  let state = seed;
  return () => ((state = (state * 1103515245 + 12345) % 2147483648), state / 2147483648);
}

function laidOut(count, seed) {
  const next = random(seed);
  const nodes = Array.from({ length: count }, (_, index) => ({ id: `n${index}`, width: 80 + Math.floor(next() * 80), height: 50, ports: [-10, 10] }));
  const edges = [];
  for (let index = 1; index < count; index++)
    for (let port = 0; port < 1 + Math.round(next()); port++) edges.push({ from: `n${Math.floor(next() * index)}`, to: `n${index}`, port });
  return { nodes, edges, found: layout(nodes, edges) };
}

test("no two operators overlap, lines go to the right, and the picture begins at its corner", () => {
  for (let seed = 1; seed <= 30; seed++) {
    const { edges, found } = laidOut(4 + seed, seed);
    const boxes = [...found.nodes.values()];
    for (const one of boxes)
      for (const two of boxes)
        assert.ok(one === two || one.x + one.width <= two.x || two.x + two.width <= one.x || one.y + one.height + 20 <= two.y || two.y + two.height + 20 <= one.y);
    for (const edge of edges) {
      const points = found.edges.get(keyOf(edge));
      assert.ok(points.every(([x], index) => !index || x >= points[index - 1][0]), "to the right");
      assert.ok(found.nodes.get(edge.from).rank < found.nodes.get(edge.to).rank);
    }
    assert.equal(Math.min(...boxes.map(({ x }) => x)), 0);
    assert.ok(Math.min(...boxes.map(({ y }) => y)) >= -1);
  }
});

test("a chain is straight, and two inputs come to their ports without crossing", () => {
  const nodes = ["a", "b", "c"].map((id) => ({ id, width: 100, height: 40 + 10 * (id === "b"), ports: [0] }));
  const line = layout(nodes, [{ from: "a", to: "b", port: 0 }, { from: "b", to: "c", port: 0 }]);
  for (const [[, y], [, toY]] of line.edges.values()) assert.equal(y, toY);
  const fork = layout(
    ["a", "x", "y", "j"].map((id) => ({ id, width: 100, height: 50, ports: id === "j" ? [-10, 10] : [0] })),
    [{ from: "a", to: "x", port: 0 }, { from: "a", to: "y", port: 0 }, { from: "y", to: "j", port: 0 }, { from: "x", to: "j", port: 1 }],
  );
  assert.ok(fork.nodes.get("y").y < fork.nodes.get("x").y);
});

test("a circle is drawn, too", () => {
  const found = layout(["a", "b"].map((id) => ({ id, width: 80, height: 50, ports: [0] })), [{ from: "a", to: "b", port: 0 }, { from: "b", to: "a", port: 0 }]);
  assert.equal(found.edges.size, 2);
});

test("the nearest line is found, and none that is far", () => {
  const lines = [["one", [[0, 0], [100, 0]]], ["two", [[0, 50], [100, 90]]]];
  assert.equal(nearestLine(lines, [50, 8], 20), "one");
  assert.equal(nearestLine(lines, [52, 66], 20), "two");
  assert.equal(nearestLine(lines, [50, 35], 20), null);
  assert.equal(path([[0, 0], [10, 0], [20, 5]]), "M0,0H10C15,0 15,5 20,5");
});
