// Colours and patterns of the states for canvases, taken from the style sheet; asked again when the theme changes.

const TOKENS = [
  "wait", "synth", "ready", "dwait", "device", "final", "done", "failed", "lost", "off",
  "line", "grid", "muted", "ink", "surface", "now", "focus", "raised",
];

/** state -> [token, style]: how a phase looks. "thin" is a line: time in which nothing is computed. */
export const LOOK = {
  pending: ["wait", "thin"],
  reserved: ["wait", "thin"],
  synthesizing: ["synth", "solid"],
  ready: ["ready", "thin"],
  claimed: ["dwait", "solid"],
  device_wait: ["dwait", "hatched"],
  device: ["device", "solid"],
  finalizing: ["final", "solid"],
  finishing: ["final", "solid"],
  done: ["done", "solid"],
  failed: ["failed", "solid"],
  lost: ["lost", "hatched"],
  cancelled: ["off", "hatched"],
  skipped: ["off", "hatched"],
};

export class Paint {
  static #current = null;

  /** The paint of the present theme, made once for all timelines. */
  static current(probe) {
    return (Paint.#current ??= new Paint(probe));
  }

  /** The theme has changed. */
  static forget() {
    Paint.#current = null;
  }

  constructor(probe) {
    const style = getComputedStyle(probe);
    this.colour = {};
    for (const token of TOKENS) {
      probe.style.color = `var(--${token})`;
      this.colour[token] = style.color;
    }
    probe.style.color = "";
    this.font = `11px ${style.fontFamily}`;
    this.patterns = new Map();
  }

  /** A colour, or a hatching of it, to fill with. */
  fill(context, token, style) {
    if (style !== "hatched") return this.colour[token];
    if (!this.patterns.has(token)) this.patterns.set(token, hatching(context, this.colour[token]));
    return this.patterns.get(token);
  }
}

function hatching(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 12;
  const c = tile.getContext("2d");
  c.globalAlpha = 0.35;
  c.fillStyle = colour;
  c.fillRect(0, 0, 12, 12);
  c.globalAlpha = 1;
  c.strokeStyle = colour;
  c.lineWidth = 3;
  for (const x of [-12, 0, 12]) {
    c.beginPath();
    c.moveTo(x - 2, 14);
    c.lineTo(x + 14, -2);
    c.stroke();
  }
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix([1 / 2, 0, 0, 1 / 2, 0, 0]));
  return pattern;
}

/** Paints a <i class="swatch"> of the legend as its bar looks. */
export function swatch(state) {
  const node = document.createElement("i");
  node.className = `swatch ${LOOK[state][1]}`;
  node.dataset.hue = LOOK[state][0];
  return node;
}
