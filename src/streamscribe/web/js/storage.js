// What this browser remembers. A browser that forbids it is no reason to fail.

export function recall(key, fallback) {
  try { return JSON.parse(localStorage.getItem(key)) ?? fallback; } catch { return fallback; }
}

export function keep(key, value) {
  try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* full or forbidden: it is a comfort */ }
}

export function drop(key) {
  try { localStorage.removeItem(key); } catch { /* forbidden: nothing was kept */ }
}
