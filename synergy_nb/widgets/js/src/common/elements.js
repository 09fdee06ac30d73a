// Elements of a page; words are never read as markup.

export function make(tag, kind = "", words = "", attributes = {}) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (words) element.textContent = words;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// An element whose text has not changed is left alone.
export function put(element, words) {
  if (element.textContent !== words) element.textContent = words;
}
