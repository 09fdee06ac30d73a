// Whether the page's guess at what operations do is what the kernel did. The file PLAN_EDITOR_CASES has the cases: kinds of
// operators, and operations with the operators before and after them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const page = new URL("../../synergy_nb/widgets/js/src/planeditor/", import.meta.url);
const { applied } = await import(new URL("operations.js", page));
const { read } = await import(new URL("yaml.js", page));
const { kinds, cases } = JSON.parse(readFileSync(process.env.PLAN_EDITOR_CASES, "utf8"));

const plain = (value) => (value instanceof Map ? Object.fromEntries([...value].map(([key, each]) => [key, plain(each)])) : Array.isArray(value) ? value.map(plain) : value);
const seen = (operators) =>
  Object.fromEntries(
    operators.map(({ id, kind, inputs, fields }) => [
      id,
      { kind, inputs, fields: Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, plain(read(text))])) },
    ]),
  );

const known = new Map(kinds.map((kind) => [kind.kind, kind]));
cases.forEach(({ operation, before, after }, number) =>
  test(`${number}: ${JSON.stringify(operation)}`, () => {
    const document = { name: "plan", qos: {}, columns: {}, operators: before };
    const [guessed, done] = [seen(applied(document, [operation], known).operators), seen(after)];
    assert.deepEqual(Object.keys(guessed).sort(), Object.keys(done).sort());
    for (const id of Object.keys(done)) assert.deepEqual({ id, ...guessed[id] }, { id, ...done[id] });
  }),
);
