// Fields that are still to fill in, of operators that were just added in this view. A missing value is to do, and no problem
// yet. It becomes a problem once the field had a value, or when the plan is checked or submitted.
export class ToDo {
  constructor(editor) {
    this.editor = editor;
    this.fresh = new Map(); // first name of an operator in this view to the names of its fields that had a value
  }

  added(id) {
    this.fresh.set(this.editor.identity(id), new Set());
  }

  filled(id, field) {
    this.fresh.get(this.editor.identity(id))?.add(field);
  }

  // From now on all that is missing is a problem; returns whether something was to do.
  end() {
    const some = this.fresh.size > 0;
    this.fresh.clear();
    return some;
  }

  // Whether a problem is only something to do.
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

// What is to do, in a few words, for the operator and its form.
export const toDoWords = ({ field }) => (field === "output" ? "add what reads it, such as a sink" : field === "inputs" ? "connect an input" : `fill in ${field.replace(/_/g, " ")}`);
