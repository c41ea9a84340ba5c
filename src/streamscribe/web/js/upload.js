// A file through the OpenAI-compatible route, with progress of the upload and of the recognition (server-sent events).

export class Upload {
  #request = new XMLHttpRequest();
  #on;
  #read = 0;
  #over = false;

  /**
   * Begins at once. `on.sent(share)`, `on.progress(share or null)` and `on.segment(segment)` tell how far it is;
   * `on.over(null or { code, message, status })` comes last, but not after `abort`.
   */
  constructor(file, { language, hotwords, key }, on) {
    this.#on = on;
    const form = new FormData();
    form.append('stream', 'true');
    form.append('include[]', 'progress');
    if (language) form.append('language', language);
    for (const word of hotwords) form.append('keywords[]', word);
    form.append('file', file);
    const request = this.#request;
    request.upload.onprogress = ({ loaded, total }) => on.sent(loaded / total);
    request.onprogress = () => request.status === 200 && this.#parse();
    request.onload = () => (request.status === 200 ? this.#parse() : this.#refused());
    request.onloadend = () => this.#finish({ code: 'unreachable', message: '' });
    request.onabort = () => { this.#over = true; };
    request.open('POST', '/v1/audio/transcriptions');
    if (key) request.setRequestHeader('Authorization', `Bearer ${key}`);
    request.send(form);
  }

  abort() {
    this.#request.abort();
  }

  #finish(error) {
    if (this.#over) return;
    this.#over = true;
    this.#on.over(error);
  }

  #refused() {
    let error = { message: this.#request.statusText };
    try { error = JSON.parse(this.#request.responseText).error; } catch { /* not ours: a proxy's page */ }
    this.#finish({ ...error, status: this.#request.status });
  }

  #parse() {
    const text = this.#request.responseText;
    for (let end; (end = text.indexOf('\n\n', this.#read)) >= 0; this.#read = end + 2) {
      const data = text.slice(this.#read, end);
      if (data === 'data: [DONE]') this.#finish(null);
      else if (data.startsWith('data: ')) this.#event(JSON.parse(data.slice(6)));
    }
  }

  #event(event) {
    if (event.error) this.#finish(event.error);
    else if (event.type === 'transcript.text.segment') this.#on.segment(event);
    else if (event.type === 'streamscribe.progress') {
      this.#on.progress(event.duration_s ? Math.min(1, event.processed_s / event.duration_s) : null);
    }
  }
}
