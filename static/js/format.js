// Numbers and times as people read them. Rounding carries: 59 960 ms is "1m 00s", never "60.0s".

export const NONE = "–";
const COUNTS = new Intl.NumberFormat("en"); // made once: to make it takes longer than to use it
const two = (n) => String(n).padStart(2, "0");

/** A duration in milliseconds; null gives an en dash, a negative one (clock skew) "0ms". */
export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NONE;
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1000) return `${whole}ms`;
  const tenths = Math.round(whole / 100);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)}s`;
  const seconds = Math.round(whole / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  const minutes = Math.round(whole / 60000);
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  const hours = Math.round(whole / 3600000);
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** How long ago, in whole seconds, for ages that tick: "6 s", "00:42", "1:02:03". */
export function clock(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NONE;
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${two(m)}:${two(s)}`;
}

/** Bytes in GiB with one decimal, or MiB below one GiB. */
export function bytes(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return NONE;
  const gib = n / 2 ** 30;
  return gib >= 1 || n === 0 ? `${gib.toFixed(1)} GiB` : `${Math.round(n / 2 ** 20)} MiB`;
}

export function percent(part, whole) {
  return whole > 0 && Number.isFinite(part) ? `${Math.round((100 * part) / whole)}%` : NONE;
}

export function count(n) {
  return n === null || n === undefined ? NONE : COUNTS.format(n).replaceAll(",", "\u202f");
}

/** A sector size as it is named: "2 KiB", "32 GiB". */
export function sectorSize(n) {
  if (!Number.isFinite(n) || n <= 0) return NONE;
  const step = Math.min(3, Math.floor(Math.log2(n) / 10));
  return `${n / 2 ** (10 * step)} ${["B", "KiB", "MiB", "GiB"][step]}`;
}

/** A moment in milliseconds since 1970, in "utc" or "local"; `parts` is "time", "date" or "both". */
export function moment(ms, zone, parts = "both") {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NONE;
  const d = new Date(zone === "utc" ? ms : ms - new Date(ms).getTimezoneOffset() * 60000);
  const [date, time] = d.toISOString().split("T");
  return parts === "time" ? time.slice(0, 8) : parts === "date" ? date : `${date} ${time.slice(0, 8)}`;
}

/** What the zone is called, so that no time stands without one: "UTC", "local (UTC+02:00)". */
export function zoneName(zone, at = Date.now()) {
  if (zone === "utc") return "UTC";
  const offset = -new Date(at).getTimezoneOffset();
  const size = Math.abs(offset);
  return `local (UTC${offset < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)})`;
}

const KINDS = {
  "porep-c2": "PoRep C2",
  "snap-update": "SnapDeals",
  "window-post": "WindowPoSt",
  "winning-post": "WinningPoSt",
};

/** The human name of a kind; an unknown one is shown as it is. */
export function kindName(kind) {
  return Object.hasOwn(KINDS, kind) ? KINDS[kind] : String(kind ?? NONE);
}
