// The client's ledger of a session: a segment is overwritten by a higher version, never by guessing.

export class Transcript {
  #segments = new Map();

  /** Takes a result message; returns whether anything changed. */
  apply(result) {
    const known = this.#segments.get(result.segment_id);
    if (known && known.version >= result.version) return false;
    this.#segments.set(result.segment_id, {
      id: result.segment_id, version: result.version, text: result.text,
      final: result.is_final, first: result.is_final && result.pass === 1, startMs: result.start_ms, endMs: result.end_ms,
    });
    return true;
  }

  /** Segments in the order of their time. */
  segments() {
    return [...this.#segments.values()].sort((a, b) => a.startMs - b.startMs);
  }

  finals() {
    return this.segments().filter((segment) => segment.final && segment.text);
  }

  /** All finals in one paragraph. */
  text() {
    return joinTexts(this.finals().map((segment) => segment.text));
  }
}

/** Texts in a row: nothing between Chinese or Japanese characters, a space elsewhere. */
const WIDE = /[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]/;

export function joinTexts(texts) {
  return texts.reduce((all, text) => {
    if (!all || !text) return all + text;
    return WIDE.test(all.at(-1)) && WIDE.test(text[0]) ? all + text : `${all} ${text}`;
  }, '');
}

const pad = (number, width = 2) => String(number).padStart(width, '0');

function stamp(ms, mark) {
  const s = Math.floor(ms / 1000);
  return `${pad(Math.floor(s / 3600))}:${pad(Math.floor(s / 60) % 60)}:${pad(s % 60)}${mark}${pad(Math.floor(ms % 1000), 3)}`;
}

export const clock = (ms) => `${Math.floor(ms / 60000)}:${pad(Math.floor(ms / 1000) % 60)}`;

export function toSrt(segments) {
  return segments.map((s, i) => `${i + 1}\n${stamp(s.startMs, ',')} --> ${stamp(s.endMs, ',')}\n${s.text}\n`).join('\n');
}

export function toVtt(segments) {
  const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return `WEBVTT\n\n${segments.map((s) => `${stamp(s.startMs, '.')} --> ${stamp(s.endMs, '.')}\n${escape(s.text)}\n`).join('\n')}`;
}
