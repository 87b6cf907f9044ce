// Small tools of the views: elements by id, texts that are written only when they change, rows by key.

export const $ = (id) => document.getElementById(id);

/** Writes an element's text; what it was is kept beside it, for reading it back out of the document costs more. */
export function setText(node, text) {
  if (node.written === text) return;
  node.written = text;
  node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function element(tag, { text = "", kind = "", ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A row of cells; the first is its header. `kinds` by column: classes. */
export function row(kinds) {
  const made = element("tr");
  kinds.forEach((kind, column) => {
    made.append(column ? element("td", { kind }) : element("th", { scope: "row", kind }));
  });
  return made;
}

/** Writes texts into a row's cells. */
export function write(of, texts) {
  texts.forEach((text, column) => setText(of.cells[column], text));
}

/**
 * Makes the rows of `body` those of `items`: a row stays the row of its key, so that what has the focus in it keeps
 * it. Focus in a row that goes moves to `refuge`.
 */
export function keyed(body, items, key, make, update, refuge) {
  const rows = (body.rowsByKey ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [of, there] of rows) {
    if (wanted.has(of)) continue;
    const focused = there.contains(document.activeElement);
    there.remove();
    rows.delete(of);
    if (focused) refuge.focus();
  }
  let next = body.firstElementChild;
  for (const item of items) {
    const of = key(item);
    let there = rows.get(of);
    if (!there) rows.set(of, (there = make(item)));
    update(there, item);
    if (there === next) next = next.nextElementSibling;
    else body.insertBefore(there, next);
  }
}

/** Runs a render at the next animation frame, however often it is asked for; `views` by name. */
export class Frames {
  constructor(views) {
    this.views = views;
    this.dirty = new Set();
    this.asked = false;
    this.count = 0;
    /** Longest time a render took, ms. */
    this.longest = 0;
  }

  mark(...names) {
    names.forEach((name) => this.dirty.add(name));
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.#render());
  }

  #render() {
    this.asked = false;
    this.count += 1;
    const begun = performance.now();
    const due = [...this.dirty];
    this.dirty.clear();
    due.forEach((name) => this.views[name]());
    this.longest = Math.max(this.longest, performance.now() - begun);
  }
}
