// Makes elements. Text of strangers only ever becomes text nodes: nothing here parses HTML.

const SPOKEN = new Set(["title", "aria-label", "alt", "placeholder"]);

/** Makes an element: attributes (listeners as `onclick`, `data-…`, `aria-…`) and children.
 * @param {string} tag  such as `div.card.wide`
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|number|null|undefined|Array<any>)} children
 * @returns {HTMLElement} */
export function el(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value === true ? "" : SPOKEN.has(key) ? shown(String(value)) : String(value));
  }
  append(made, children);
  return made;
}

const CODE = new Set(["PRE", "CODE", "KBD"]);
/** Parts of a sentence: they have the direction of the whole. */
const PARTS = new Set(["STRONG", "EM", "A"]);

/** Appends children; arrays are flattened, null is left out. What holds a text has the direction of that text; code
 * goes from left to right. */
export function append(parent, children) {
  const isOwn = !parent.hasAttribute("dir") && !PARTS.has(parent.tagName);
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) parent.append(child);
    else {
      parent.append(shown(String(child)));
      if (isOwn) parent.dir = "auto";
    }
  }
  if (!CODE.has(parent.tagName)) return;
  parent.dir = "ltr";
  for (const each of parent.querySelectorAll("[dir=auto]")) each.removeAttribute("dir");
}

/** Replaces what an element holds. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

// Controls, marks of direction, and letters that show nothing. A joiner inside a picture stays.
const HIDDEN = /(?<!\p{Extended_Pictographic}\ufe0f?)\u200d|(?!\u200d)[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]/gu;
const PLAIN = /^[\t\n\x20-\x7e]*$/;

/** A text as it is, with characters that cannot be seen, or that turn others around, written out. */
export function shown(text) {
  if (PLAIN.test(text)) return text;
  return text.replaceAll("\r\n", "\n").replace(HIDDEN, (one) => (
    one === "\n" || one === "\t" ? one : `\\u{${one.codePointAt(0).toString(16)}}`));
}

/** Where a pane must be scrolled to, so that what stands between `top` and `bottom` is in view. */
export function scrolled({ scrollTop, clientHeight }, top, bottom) {
  const isSeen = top >= scrollTop && (bottom <= scrollTop + clientHeight || top < scrollTop + clientHeight / 2);
  return isSeen ? scrollTop : Math.max(top - 12, 0);
}

/** A time in words, from milliseconds. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "…";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${((ms % 60000) / 1000).toFixed(0)} s`;
}

/** A number of bytes in words. */
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** One of some things in words: `1 event`, `2 events`. */
export function several(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Replaces what an element holds, and keeps the focus on what has the same `data-key`. */
export function refill(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  fill(parent, ...children);
  if (key) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** Replaces what an element holds; children that are the same stay, and details stay open. */
export function renew(parent, children) {
  [...children].forEach((child, at) => {
    const old = parent.childNodes[at];
    if (old === undefined) parent.append(child);
    else {
      if (old.tagName === "DETAILS" && child.tagName === "DETAILS") child.open = old.open;
      if (!old.isEqualNode(child)) old.replaceWith(child);
    }
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}
