// The database's time in the browser. A frame says what it was when it was sent; the frame that travelled fastest tells
// most. The browser's own clock is never compared with a server's time.

const WINDOW_MS = 60_000;

export class ServerClock {
  #samples = []; // [received at, offset], the largest offset first
  /** The last database time at which the server has read the database, in microseconds. */
  readUs = 0;

  /** A frame (or snapshot) that was sent at `nowUs` has just arrived. */
  hear(nowUs, readUs, at = performance.now()) {
    const offset = nowUs / 1000 - at;
    this.#samples = this.#samples.filter(([heard, other]) => at - heard < WINDOW_MS && other > offset);
    this.#samples.push([at, offset]);
    this.readUs = Math.max(this.readUs, readUs);
  }

  /** Forget everything: another server, another clock. */
  reset() {
    this.#samples = [];
    this.readUs = 0;
  }

  /** The database's time in milliseconds since 1970. */
  now(at = performance.now()) {
    return this.#samples.length ? at + this.#samples[0][1] : NaN;
  }

  /** How old the data is, in milliseconds: the time since the server has read the database. */
  age(at = performance.now()) {
    return this.now(at) - this.readUs / 1000;
  }
}
