// Results of this browser: the newest 30, bounded in size.

import { drop, keep, recall } from './storage.js';

const KEY = 'history';
const MAX_ENTRIES = 30;
const MAX_CHARS = 500_000;

/** `{ name, at, segments }`, the newest first; the name is empty for what came from the microphone. */
export const entries = () => recall(KEY, []);

export function remember(name, segments) {
  const kept = [{ name, at: Date.now(), segments }, ...entries()].slice(0, MAX_ENTRIES);
  while (kept.length > 1 && JSON.stringify(kept).length > MAX_CHARS) kept.pop();
  keep(KEY, kept);
}

export const forget = () => drop(KEY);
