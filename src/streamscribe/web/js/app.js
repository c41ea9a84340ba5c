// Joins the parts: what a person does, what the server says, what the page shows.

import { Dictation } from './dictation.js';
import { copy, download } from './export.js';
import * as history from './history.js';
import { say, switchLocale, translatePage } from './i18n.js';
import { Meter } from './meter.js';
import { checkServer, key, purge } from './server.js';
import { keep, recall } from './storage.js';
import { Transcript, toSrt, toVtt } from './transcript.js';
import { Upload } from './upload.js';
import * as view from './view.js';

const { $ } = view;
const BEHIND_MS = 3000;
const meter = new Meter($('meter'));
let transcript = new Transcript();
let title = ''; // of the file that the transcript is of
let dictation = null;
let upload = null;

const hotwords = () => $('hotwords').value.split(/[,，、]/).map((word) => word.trim()).filter(Boolean);

function begin(name = '') {
  transcript = new Transcript();
  title = name;
  view.showMessage(null);
  view.showClock(0);
  view.showTranscript(transcript);
}

function take(result) {
  if (transcript.apply(result)) view.showTranscript(transcript);
}

/** The work is over: what was heard goes into the history. */
function finish(error) {
  dictation = upload = null;
  meter.clear();
  view.showProgress(null);
  view.showWork(null);
  if (transcript.finals().length) history.remember(title, transcript.finals());
  else if (!error) view.showMessage('nothing', { kind: 'note' });
  drawHistory();
}

function drawHistory() {
  view.showHistory(history.entries(), ({ name, segments }) => {
    begin(name);
    for (const { id, version, text, startMs, endMs } of segments) {
      take({ segment_id: id, version, text, is_final: true, start_ms: startMs, end_ms: endMs });
    }
    $('transcript').focus();
  });
}

async function speak() {
  begin();
  view.showWork('live');
  dictation = new Dictation({
    heard: ({ peak, ms }) => { meter.show(peak); view.showClock(ms); },
    result: take,
    live: () => view.showServer('ready'),
    reconnecting: () => view.showServer('reconnecting'),
    heartbeat: ({ lag_ms: lag }) => view.showServer(lag > BEHIND_MS ? 'behind' : 'ready'),
    go_away: () => view.showServer('leaving'),
    over: ({ outcome, error }) => {
      finish(outcome !== 'end');
      if (error) view.showError(error);
      else if (outcome !== 'end') view.showMessage(outcome === 'lost' ? 'lost' : 'unreachable');
      checkServer();
    },
  });
  try {
    await dictation.start({ language: $('language').value || null, hotwords: hotwords().map((phrase) => ({ phrase, weight: 1 })) }, key());
  } catch (error) {
    finish(error);
    view.showMessage(error.message);
    if (error.message === 'unreachable') checkServer();
  }
}

function recognise(file) {
  if (!file || dictation || upload) return;
  begin(file.name);
  upload = new Upload(file, { language: $('language').value, hotwords: hotwords(), key: key() }, {
    sent: (share) => (share < 1 ? view.showProgress('uploading', share) : view.showProgress('recognising', null)),
    progress: (share) => view.showProgress('recognising', share),
    segment: ({ id, text, start, end }) => take({ segment_id: id, version: 1, text, is_final: true, start_ms: start * 1000, end_ms: end * 1000 }),
    over: (error) => {
      finish(error);
      if (error) view.showError(error);
      if (error) checkServer();
    },
  });
  view.showProgress('uploading', 0);
  view.showWork('file');
}

const name = () => title.replace(/\.\w+$/, '') || 'transcript';

$('microphone').onclick = () => {
  if (!dictation) return speak();
  view.showWork('finishing');
  return dictation.stop();
};
$('file').onchange = ({ target }) => { recognise(target.files[0]); target.value = ''; };
window.ondragover = (event) => { event.preventDefault(); $('drop').classList.toggle('over', !dictation && !upload); };
window.ondragleave = (event) => event.relatedTarget || $('drop').classList.remove('over');
window.ondrop = (event) => {
  event.preventDefault(); // a file that misses the field must not replace the page
  $('drop').classList.remove('over');
  recognise(event.dataTransfer.files[0]);
};
$('cancel').onclick = () => { upload?.abort(); finish('cancelled'); $('file').focus(); };
$('copy').onclick = async () => {
  await copy(transcript.text());
  say($('copy'), 'copied');
  setTimeout(() => say($('copy'), 'copy'), 1500);
};
$('srt').onclick = () => download(`${name()}.srt`, toSrt(transcript.finals()), 'application/x-subrip');
$('vtt').onclick = () => download(`${name()}.vtt`, toVtt(transcript.finals()), 'text/vtt');
$('clear').onclick = () => { begin(title); $('microphone').focus(); };
$('forget').onclick = () => { history.forget(); drawHistory(); $('microphone').focus(); };
$('purge').onclick = purge;
$('locale').onclick = () => { switchLocale(); drawHistory(); showOtherLocale(); };
$('hotwords').value = recall('hotwords', '');
$('hotwords').onchange = ({ target }) => keep('hotwords', target.value);
$('key').onchange = checkServer;
document.onvisibilitychange = () => document.visibilityState === 'visible' && !dictation && checkServer();

function showOtherLocale() {
  const chinese = document.documentElement.lang === 'zh-CN';
  $('locale').textContent = chinese ? 'English' : '中文';
  $('locale').lang = chinese ? 'en' : 'zh-CN';
}

translatePage();
showOtherLocale();
drawHistory();
checkServer();
