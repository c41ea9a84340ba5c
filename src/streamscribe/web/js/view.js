// Draws state into the page; knows the DOM and nothing of sockets.

import { clock, joinTexts } from './transcript.js';
import { t } from './i18n.js';

const $ = (id) => document.getElementById(id);

export function showServer(state) {
  $('server').dataset.state = state === 'ready' ? 'ready' : state === 'down' ? 'down' : 'busy';
  $('server').innerHTML = '';
  const word = document.createElement('span');
  word.dataset.i18n = state;
  word.textContent = t(state);
  $('server').append(word);
}

export function showMessage(text) {
  $('message').textContent = text;
  $('message').hidden = !text;
}

export function showMicrophone(state) {
  $('microphone').setAttribute('aria-pressed', String(state === 'stop'));
  $('microphone').disabled = state === 'finishing';
  $('microphone-label').dataset.i18n = state;
  $('microphone-label').textContent = t(state);
}

export function showLevel(peak) {
  // Decibels read better than amplitude: -50 dB is empty, 0 dB is full.
  const level = Math.max(0, Math.min(1, 1 + (20 * Math.log10(peak + 1e-6)) / 50));
  $('meter').firstElementChild.style.transform = `scaleX(${level})`;
  $('meter').setAttribute('aria-valuenow', Math.round(level * 100));
}

export const showClock = (ms) => { $('clock').textContent = clock(ms); };

export function showProgress(key, share) {
  $('progress').hidden = key === null;
  if (key === null) return;
  $('progress-label').textContent = t(key);
  if (share === null) $('progress-bar').removeAttribute('value');
  else $('progress-bar').value = Math.round(share * 100);
}

function row(segment) {
  const item = document.createElement('li');
  item.dataset.segment = segment.id;
  const time = document.createElement('time');
  const text = document.createElement('span');
  item.append(time, text);
  return item;
}

function fill(item, segment) {
  item.className = segment.final ? 'final' : 'partial';
  item.firstElementChild.textContent = clock(segment.startMs);
  const stable = document.createElement('span');
  stable.className = 'stable';
  stable.textContent = segment.text.slice(0, segment.stable);
  item.lastElementChild.replaceChildren(...(segment.final ? [segment.text] : [stable, segment.text.slice(segment.stable)]));
}

/** Draws what changed: one list item a segment, reused. */
export function showTranscript(transcript) {
  const list = $('transcript');
  const shown = transcript.segments().filter((segment) => segment.text);
  const items = new Map([...list.children].map((item) => [item.dataset.segment, item]));
  shown.forEach((segment, place) => {
    const item = items.get(String(segment.id)) ?? row(segment);
    items.delete(String(segment.id));
    if (item.dataset.version !== String(segment.version)) fill(item, segment);
    item.dataset.version = segment.version;
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null);
  });
  for (const gone of items.values()) gone.remove();
  $('empty').hidden = shown.length > 0;
  for (const id of ['copy', 'srt', 'vtt', 'clear']) $(id).disabled = transcript.finals().length === 0;
}

export function showHistory(entries, onOpen) {
  $('history').replaceChildren(...entries.map((entry) => {
    const item = document.createElement('li');
    const button = document.createElement('button');
    const when = document.createElement('small');
    const text = document.createElement('span');
    when.textContent = `${new Date(entry.at).toLocaleString()} · ${entry.name}`;
    text.textContent = joinTexts(entry.segments.map((segment) => segment.text));
    button.type = 'button';
    button.append(when, text);
    button.onclick = () => onOpen(entry);
    item.append(button);
    return item;
  }));
  $('history-empty').hidden = entries.length > 0;
  $('forget').disabled = entries.length === 0;
}

export function download(name, text, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
