// What is still to fill in of operators that were just added here: it is no mistake yet. It becomes one once the field had
// a value, or when the plan is to be checked or submitted.
export class Due {
  constructor(editor) {
    this.editor = editor;
    this.fresh = new Map(); // by what the operator is called first: names of the fields that had a value
  }

  added(id) {
    this.fresh.set(this.editor.identity(id), new Set());
  }

  filled(id, field) {
    this.fresh.get(this.editor.identity(id))?.add(field);
  }

  // From now on nothing of it is new; returns whether something was.
  end() {
    const some = this.fresh.size > 0;
    this.fresh.clear();
    return some;
  }

  has({ operator, field = "", value = null }) {
    if (!operator) return field === "operators" && this.fresh.size > 0; // there is no sink yet
    const filled = this.fresh.get(this.editor.identity(operator));
    if (!filled) return false;
    if (field === "output") return true; // nothing reads it yet
    if (field !== "inputs") return value === null && !filled.has(field.split(".")[0]);
    const found = this.editor.operator(operator);
    const [least = 0] = this.editor.kinds.get(found?.kind)?.inputs ?? [];
    return Boolean(found) && found.inputs.length < least && found.inputs.every((id) => this.editor.operator(id));
  }
}

// In a few words, for the operator and its form.
export const dueWords = ({ field }) => (field === "output" ? "read it" : field === "inputs" ? "connect an input" : `fill in ${field.replace(/_/g, " ")}`);
