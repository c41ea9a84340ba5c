// Draws state into the page; knows the DOM and nothing of sockets.

import { knows, say, tag } from './i18n.js';
import { clock, joinTexts } from './transcript.js';

export const $ = (id) => document.getElementById(id);

const SERVER_STATES = { ready: 'ready', behind: 'ready', down: 'down' };

export function showServer(state) {
  $('server').dataset.state = SERVER_STATES[state] ?? 'busy';
  if ($('server').dataset.i18n !== state) say($('server'), state);
}

/** A message by its key, with what the server said of it; no key takes it away. */
export function showMessage(key, { kind = 'problem', detail = '' } = {}) {
  $('message').hidden = !key;
  if (!key) return;
  $('message').dataset.kind = kind;
  $('message-detail').textContent = detail;
  say($('message-text'), key);
}

/** An error of the server: our words for the ones we know, its own for all. */
export function showError({ code, name, message }) {
  const known = [name, code].find((key) => typeof key === 'string' && knows(key));
  showMessage(known ?? 'failed', { detail: message });
}

/** What runs: `live`, `finishing`, `file`, or null. One thing at a time: what could start another is off meanwhile. */
export function showWork(work) {
  document.body.dataset.busy = work ?? '';
  const microphone = $('microphone');
  microphone.setAttribute('aria-pressed', String(work === 'live'));
  microphone.setAttribute('aria-disabled', String(work === 'finishing')); // `disabled` would lose the focus
  microphone.disabled = work === 'file';
  say($('microphone-label'), { live: 'stop', finishing: 'finishing' }[work] ?? 'speak');
  $('options').disabled = Boolean(work);
  $('history').inert = Boolean(work);
}

export const showClock = (ms) => { $('clock').textContent = clock(ms); };

export function showProgress(key, share) {
  const focused = document.activeElement;
  $('progress').hidden = !key;
  if (!key) return;
  say($('progress-label'), key);
  $('progress-share').textContent = share === null ? '' : `${Math.round(share * 100)} %`;
  if (share === null) $('progress-bar').removeAttribute('value');
  else $('progress-bar').value = Math.round(share * 100);
  if (focused === $('file') || focused === document.body) $('cancel').focus();
}

function row(segment) {
  const item = document.createElement('li');
  item.dataset.segment = segment.id;
  item.append(document.createElement('time'), document.createElement('span'));
  return item;
}

function fill(item, segment) {
  item.className = segment.final ? 'final' : 'partial';
  item.classList.toggle('first', segment.first); // a second pass will overwrite it
  item.dataset.version = segment.version;
  item.firstElementChild.textContent = clock(segment.startMs);
  item.lastElementChild.textContent = segment.text;
  if (segment.final && !segment.first) $('said').textContent = segment.text;
}

/** Draws what changed: one list item a segment, reused. The end stays in sight for who has not scrolled away. */
export function showTranscript(transcript) {
  const list = $('transcript');
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  const shown = transcript.segments().filter((segment) => segment.text);
  const items = new Map([...list.children].map((item) => [item.dataset.segment, item]));
  shown.forEach((segment, place) => {
    const item = items.get(String(segment.id)) ?? row(segment);
    items.delete(String(segment.id));
    if (item.dataset.version !== String(segment.version)) fill(item, segment);
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null);
  });
  for (const gone of items.values()) gone.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
  $('empty').hidden = shown.length > 0;
  const finals = transcript.finals().length;
  for (const id of ['copy', 'srt', 'vtt', 'clear']) $(id).disabled = finals === 0;
}

export function showHistory(entries, onOpen) {
  const time = new Intl.DateTimeFormat(tag(), { dateStyle: 'medium', timeStyle: 'short' });
  $('history').replaceChildren(...entries.map((entry) => {
    const button = document.createElement('button');
    const when = document.createElement('small');
    const name = document.createElement('span');
    const text = document.createElement('span');
    if (entry.name) name.textContent = entry.name;
    else say(name, 'fromMicrophone');
    text.className = 'gist';
    text.textContent = joinTexts(entry.segments.map((segment) => segment.text));
    when.append(`${time.format(entry.at)} · `, name);
    button.type = 'button';
    button.append(when, text);
    button.onclick = () => onOpen(entry);
    const item = document.createElement('li');
    item.append(button);
    return item;
  }));
  $('history-empty').hidden = entries.length > 0;
  $('forget').disabled = entries.length === 0;
}
