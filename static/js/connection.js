// The socket: resumes from a cursor, acknowledges, takes a new snapshot when told to, and comes back with full jitter.

import { ServerClock } from "./clock.js";
import { feed, fromJson, Gap } from "./fold.js";
import { LEASE_MS } from "./lease.js";

const ACK_FRAMES = 10;
const ACK_MS = 1000;
const BACKOFF_MS = [500, 30_000];
const FINAL = { 4401: "logged out", 4403: "not allowed" };

/** Emits "state" (a fold that changed; detail: newest time, whether it is a catch-up) and "status". */
export class Connection extends EventTarget {
  clock = new ServerClock();
  state = null;
  live = {};
  /** connecting, open, waiting (to connect again), or what ended it for good */
  status = "connecting";
  #socket = null;
  #n = 0;
  #acked = 0;
  #failures = 0;
  #heardAt = performance.now();
  #startedOverAt = -Infinity;
  #retry = 0;
  #timers = [];

  constructor(socketUrl, snapshotUrl) {
    super();
    this.socketUrl = socketUrl;
    this.snapshotUrl = snapshotUrl;
  }

  /** Begin, from the snapshot that came with the page if there is one. */
  start(snapshot) {
    if (snapshot) this.#take(snapshot);
    this.#timers = [setInterval(() => this.#ack(), ACK_MS), setInterval(() => this.#watch(), 1000)];
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
    this.#connect();
  }

  /** Milliseconds since anything was heard from the server. */
  silence() {
    return performance.now() - this.#heardAt;
  }

  /** No frame or ping for the length of a lease, or the server could not read its database for so long: nothing here is current. */
  get stale() {
    return this.silence() > LEASE_MS || !(this.clock.age() < LEASE_MS);
  }

  /** Whether it is over for good. */
  get #ended() {
    return Object.values(FINAL).includes(this.status);
  }

  #take(snapshot) {
    this.state = fromJson(snapshot.state);
    this.live = snapshot.live;
    this.clock.hear(snapshot.now_us, snapshot.read_us);
    this.#heardAt = performance.now();
    this.#tell("state", { newest: null });
  }

  async #connect() {
    this.#status("connecting");
    try {
      if (this.state === null) await this.#fetchSnapshot();
    } catch {
      if (!this.#ended) this.#again();
      return;
    }
    const socket = new WebSocket(this.socketUrl);
    this.#socket = socket;
    this.#n = this.#acked = 0;
    socket.onopen = () => {
      this.#heardAt = performance.now();
      socket.send(JSON.stringify({ since: Object.fromEntries(this.state.heads) }));
    };
    socket.onmessage = (event) => socket === this.#socket && this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => socket === this.#socket && this.#closed(event);
  }

  async #fetchSnapshot() {
    const response = await fetch(this.snapshotUrl, {
      headers: { Accept: "application/json" }, redirect: "manual", signal: AbortSignal.timeout(LEASE_MS),
    });
    if (response.type === "opaqueredirect") this.#closed({ code: 4401 });
    if (response.status === 403) this.#closed({ code: 4403 });
    if (!response.ok) throw new Error(`snapshot: ${response.status}`);
    this.#take(await response.json());
  }

  #receive(frame) {
    this.#heardAt = performance.now();
    this.#failures = 0;
    if (this.status !== "open") this.#status("open");
    if (frame.n !== this.#n + 1 || frame.reset) return this.#startOver();
    this.#n = frame.n;
    this.clock.hear(frame.now_us, frame.read_us);
    if (frame.live) this.live = frame.live;
    try {
      const newest = frame.rows ? feed(this.state, frame.rows) : null;
      this.#tell("state", { newest });
    } catch (error) {
      if (!(error instanceof Gap)) throw error;
      return this.#startOver();
    }
    if (this.#n - this.#acked >= ACK_FRAMES) this.#ack();
  }

  /** A gap, another numbering, or "reset": the fold cannot go on from here. */
  #startOver() {
    this.state = null;
    this.#drop();
    const again = performance.now() - this.#startedOverAt < 5000; // not in a loop
    this.#startedOverAt = performance.now();
    if (again) this.#again();
    else this.#connect();
  }

  #ack() {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#n === this.#acked) return;
    this.#acked = this.#n;
    this.#socket.send(JSON.stringify({ ack: this.#n }));
  }

  #watch() {
    if (this.#socket && this.silence() > LEASE_MS) {
      this.#drop();
      this.#again();
    }
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #closed(event) {
    this.#socket = null;
    if (FINAL[event.code]) {
      this.#timers.forEach(clearInterval);
      this.#status(FINAL[event.code]);
    } else {
      this.#again();
    }
  }

  #again() {
    this.#status("waiting");
    const ceiling = Math.min(BACKOFF_MS[1], 2 * BACKOFF_MS[0] * 2 ** this.#failures++);
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#connect(), Math.max(BACKOFF_MS[0], Math.random() * ceiling));
  }

  /** Something has changed for the better: don't wait out the delay. */
  #hurry() {
    if (this.status !== "waiting") return;
    clearTimeout(this.#retry);
    this.#connect();
  }

  #status(word) {
    this.status = word;
    this.#tell("status", word);
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
