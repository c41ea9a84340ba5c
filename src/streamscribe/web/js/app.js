// Joins the parts: what a person does, what the server says, what the page shows.

import * as history from './history.js';
import { switchLocale, t, translatePage } from './i18n.js';
import { Microphone } from './microphone.js';
import { Session } from './session.js';
import { Transcript, toSrt, toVtt } from './transcript.js';
import { Upload } from './upload.js';
import * as view from './view.js';

const $ = (id) => document.getElementById(id);
let transcript = new Transcript();
let live = null; // { session, microphone, sentMs } while the microphone runs
let upload = null;

const key = () => $('key').value.trim();
const hotwords = () => $('hotwords').value.split(/[,，、]/).map((word) => word.trim()).filter(Boolean);

function begin() {
  transcript = new Transcript();
  view.showMessage('');
  view.showTranscript(transcript);
}

function keep(name) {
  const finals = transcript.finals();
  if (finals.length) history.remember(name, finals);
  else view.showMessage(t('nothing'));
  drawHistory();
}

function drawHistory() {
  view.showHistory(history.entries(), (entry) => {
    begin();
    entry.segments.forEach((segment) => transcript.apply({
      segment_id: segment.id, version: segment.version, text: segment.text, is_final: true, start_ms: segment.startMs, end_ms: segment.endMs,
    }));
    view.showTranscript(transcript);
    $('transcript').focus();
  });
}

async function startMicrophone() {
  begin();
  const microphone = new Microphone();
  live = { microphone, session: null, sentMs: 0, waiting: [] };
  view.showMicrophone('stop');
  let rate;
  try {
    rate = await microphone.open((samples, peak) => {
      view.showLevel(peak);
      if (!live) return;
      live.sentMs += 100;
      view.showClock(live.sentMs);
      if (live.session) live.session.send(samples);
      else live.waiting.push(samples);
    });
  } catch (error) {
    live = null;
    view.showMicrophone('speak');
    view.showMessage(t(error.message));
    return;
  }
  const session = new Session({
    audio: { encoding: 'pcm_s16le', sample_rate: rate, channels: 1 }, mode: '2pass', language: $('language').value || null,
    hotwords: hotwords().map((phrase) => ({ phrase, weight: 1 })),
  }, key());
  session.addEventListener('result', ({ detail }) => transcript.apply(detail) && view.showTranscript(transcript));
  session.addEventListener('reconnecting', () => view.showServer('reconnecting'));
  session.addEventListener('live', () => view.showServer('ready'));
  session.addEventListener('slow_down', () => view.showMessage(t('tooFast')));
  session.addEventListener('error', ({ detail }) => view.showMessage(detail.message));
  session.addEventListener('over', ({ detail }) => stopped(detail));
  live.session = session;
  live.waiting.splice(0).forEach((samples) => session.send(samples));
}

async function stopMicrophone() {
  view.showMicrophone('finishing');
  await live.microphone.close();
  view.showLevel(0);
  live?.session?.end();
}

async function stopped({ outcome, reason }) {
  const { microphone } = live ?? {};
  live = null;
  await microphone?.close();
  view.showLevel(0);
  view.showMicrophone('speak');
  if (outcome === 'end') return keep(t('microphone'));
  view.showMessage(reason || t('lost'));
  return checkServer();
}

function recognise(file) {
  if (live || upload) return;
  begin();
  upload = new Upload(file, { language: $('language').value, hotwords: hotwords(), key: key() });
  view.showProgress('uploading', 0);
  const finish = () => { upload = null; view.showProgress(null); };
  upload.addEventListener('upload', ({ detail }) => view.showProgress(detail.share < 1 ? 'uploading' : 'recognising', detail.share < 1 ? detail.share : null));
  upload.addEventListener('progress', ({ detail }) => view.showProgress('recognising', detail.duration_s ? Math.min(1, detail.processed_s / detail.duration_s) : null));
  upload.addEventListener('segment', ({ detail }) => {
    transcript.apply({ segment_id: detail.id, version: 1, text: detail.text, is_final: true, start_ms: detail.start * 1000, end_ms: detail.end * 1000 });
    view.showTranscript(transcript);
  });
  upload.addEventListener('failed', ({ detail }) => {
    finish();
    if (detail.status === 401) askForKey();
    else view.showMessage(detail.message || t('down'));
  });
  upload.addEventListener('over', () => { finish(); keep(file.name); });
}

function askForKey() {
  $('key-field').hidden = false;
  $('key').focus();
  view.showMessage(t('keyNeeded'));
}

async function checkServer() {
  try {
    const ready = await fetch('/readyz', { cache: 'no-store' });
    view.showServer(ready.ok ? 'ready' : 'warming');
    if (!ready.ok) setTimeout(checkServer, 1000);
    const models = await fetch('/v1/models', { headers: key() ? { Authorization: `Bearer ${key()}` } : {} });
    if (models.status === 401) askForKey();
  } catch {
    view.showServer('down');
    setTimeout(checkServer, 3000);
  }
}

$('microphone').onclick = () => (live ? stopMicrophone() : upload || startMicrophone());
$('file').onchange = ({ target }) => { if (target.files[0]) recognise(target.files[0]); target.value = ''; };
$('drop').onkeydown = (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); $('file').click(); } };
$('drop').ondragover = (event) => { event.preventDefault(); $('drop').classList.add('over'); };
$('drop').ondragleave = () => $('drop').classList.remove('over');
$('drop').ondrop = (event) => {
  event.preventDefault();
  $('drop').classList.remove('over');
  if (event.dataTransfer.files[0]) recognise(event.dataTransfer.files[0]);
};
$('cancel').onclick = () => { upload?.abort(); upload = null; view.showProgress(null); };
$('copy').onclick = async () => {
  await navigator.clipboard.writeText(transcript.text());
  $('copy').textContent = t('copied');
  setTimeout(() => { $('copy').textContent = t('copy'); }, 1500);
};
$('srt').onclick = () => view.download('transcript.srt', toSrt(transcript.finals()), 'application/x-subrip');
$('vtt').onclick = () => view.download('transcript.vtt', toVtt(transcript.finals()), 'text/vtt');
$('clear').onclick = begin;
$('forget').onclick = () => { history.forget(); drawHistory(); };
$('locale').onclick = () => { switchLocale(); view.showMicrophone(live ? 'stop' : 'speak'); };
$('hotwords').value = localStorage.getItem('hotwords') ?? '';
$('hotwords').onchange = ({ target }) => localStorage.setItem('hotwords', target.value);
$('key').onchange = checkServer;

translatePage();
drawHistory();
checkServer();
