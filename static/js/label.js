// Labels are never cut. Up to LONGEST characters they stand whole and wrap; a longer one keeps its head and its tail
// around a mark of the whole, so that two different labels never read the same. The whole is in title, aria-label
// and the clipboard. The same rule in Python: cuzk_web/live/labels.py.

export const LONGEST = 80;
const HEAD = 40;
const TAIL = 24;

/** What is shown of a label, by characters (code points), never by bytes or halves of a pair. */
export function shown(text) {
  const points = Array.from(text);
  if (points.length <= LONGEST) return text;
  return `${points.slice(0, HEAD).join("")}…${fingerprint(text)}…${points.slice(-TAIL).join("")}`;
}

/** FNV-1a over UTF-8, 32 bits in hex. */
export function fingerprint(text) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, "0");
}

/** Show a label in an element; text only, whatever it holds. */
export function setLabel(node, text) {
  if (node.title === text && node.textContent) return;
  node.textContent = shown(text);
  node.title = text;
  node.setAttribute("aria-label", text);
}

/** Copy, also where the page came by plain http and the clipboard interface is absent. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
