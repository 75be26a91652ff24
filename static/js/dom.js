// A few helpers in place of a framework. Text is only ever set as text.

/** An element: `el("div", {class: "card", dataset: {state}}, "text", child, ...)`. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "class") node.className = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Set text, title or another attribute only when it changes, so that nothing is laid out or announced for nothing. */
export function text(node, value) {
  const child = node.firstChild;
  if (child === null || child !== node.lastChild || child.nodeType !== Node.TEXT_NODE) {
    if (node.textContent !== value) node.textContent = value;
  } else if (child.data !== value) {
    child.data = value;
  }
}

export function title(node, value) {
  if (node.title !== value) node.title = value;
}

export function attribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function data(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

export function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Make the children of `parent` those of `items`, in order, each made once by its key and then brought up to date. */
export function keyed(parent, items, keyOf, make, update) {
  const parts = (parent.parts ??= new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, part] of parts) {
    if (wanted.has(key)) continue;
    part.node.remove();
    parts.delete(key);
  }
  let after = null;
  for (const item of items) {
    const key = keyOf(item);
    if (!parts.has(key)) parts.set(key, make(item));
    const part = parts.get(key);
    const place = after === null ? parent.firstChild : after.nextSibling;
    if (part.node !== place) parent.insertBefore(part.node, place);
    after = part.node;
    update(part, item);
  }
}

/** A badge: the state's dot and word. */
export function badge(state, word) {
  return setBadge(el("span", { class: "badge" }), state, word);
}

export function setBadge(node, state, word = state.replaceAll("_", " ")) {
  data(node, "state", state);
  text(node, word);
  return node;
}
