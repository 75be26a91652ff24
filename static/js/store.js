// What a person chose, kept in the browser; a browser that forbids storage just forgets.

export function recall(key, fallback, allowed) {
  try {
    const value = localStorage.getItem(key);
    return allowed.includes(value) ? value : fallback;
  } catch {
    return fallback;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* forgotten, then */ }
}
