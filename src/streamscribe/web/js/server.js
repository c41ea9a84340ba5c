// Whether the server is there and ready, and whether it wants a key.

import { showError, showMessage, showServer, $ } from './view.js';

const AGAIN_MS = { warming: 1000, down: 3000 };
let timer;

/** The key, if it can be one: what cannot stand in a header is answered like none. */
export function key() {
  const given = $('key').value.trim();
  return /^[\w!#$%&'*+.^`|~-]+$/.test(given) ? given : '';
}

export const bearer = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

/** Shows the server's state, and asks for a key where one is needed; asks on until the server is ready. */
export async function checkServer() {
  clearTimeout(timer);
  const state = await readiness();
  showServer(state);
  if (state !== 'ready') timer = setTimeout(checkServer, AGAIN_MS[state]);
}

async function readiness() {
  try {
    const ready = await fetch('/readyz', { cache: 'no-store' });
    const models = await fetch('/v1/models', { headers: bearer() });
    if (models.status === 401) askForKey();
    else if (models.ok && $('message-text').dataset.i18n === 'keyNeeded') showMessage(null);
    return ready.ok ? 'ready' : 'warming';
  } catch {
    return 'down';
  }
}

/** Has the server forget all that it keeps of this key's tenant; says how it went. */
export async function purge() {
  try {
    const answer = await fetch('/v1/cache', { method: 'DELETE', headers: bearer() });
    const told = await answer.json();
    if (answer.status === 401) askForKey();
    else if (!answer.ok) showError(told.error);
    else showMessage(Object.values(told.purged).some(Boolean) ? 'purged' : 'nothingKept', { kind: 'note' });
  } catch {
    showMessage('unreachable');
  }
}

function askForKey() {
  if ($('key-field').hidden || $('key').value) $('key').select();
  $('key-field').hidden = false;
  $('key').focus();
  showMessage('keyNeeded', { kind: 'note' });
}
