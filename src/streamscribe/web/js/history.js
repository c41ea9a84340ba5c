// Results of this browser, in localStorage: the newest 30, bounded in size.

const KEY = 'history';
const MAX_ENTRIES = 30;
const MAX_CHARS = 200_000;

export function entries() {
  try { return JSON.parse(localStorage.getItem(KEY)) ?? []; } catch { return []; }
}

export function remember(name, segments) {
  const kept = [{ name, at: Date.now(), segments }, ...entries()].slice(0, MAX_ENTRIES);
  while (kept.length && JSON.stringify(kept).length > MAX_CHARS) kept.pop();
  try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch { /* storage is full or off: history is a comfort */ }
}

export const forget = () => localStorage.removeItem(KEY);
