// A file through the OpenAI-compatible route, with progress of the upload and of the recognition (server-sent events).

export class Upload extends EventTarget {
  #request = new XMLHttpRequest();
  #read = 0;

  constructor(file, { language, hotwords, key }) {
    super();
    const form = new FormData();
    form.append('model', 'whisper-1');
    form.append('stream', 'true');
    form.append('include[]', 'progress');
    if (language) form.append('language', language);
    for (const word of hotwords) form.append('keywords[]', word);
    form.append('file', file);
    const request = this.#request;
    request.upload.onprogress = ({ loaded, total }) => this.#tell('upload', { share: loaded / total });
    request.onprogress = () => this.#parse();
    request.onload = () => (request.status === 200 ? this.#parse(true) : this.#fail(request.responseText));
    request.onerror = () => this.#tell('failed', { message: '' });
    request.open('POST', '/v1/audio/transcriptions');
    if (key) request.setRequestHeader('Authorization', `Bearer ${key}`);
    request.send(form);
  }

  abort() {
    this.#request.abort();
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #fail(body) {
    let error = { message: body.slice(0, 200) };
    try { error = JSON.parse(body).error; } catch { /* not JSON: the body itself is shown */ }
    this.#tell('failed', { message: error.message, status: this.#request.status });
  }

  #parse(last = false) {
    const text = this.#request.responseText;
    for (let end; (end = text.indexOf('\n\n', this.#read)) >= 0; this.#read = end + 2) {
      const data = text.slice(this.#read, end).split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n');
      if (data && data !== '[DONE]') this.#event(JSON.parse(data));
    }
    if (last) this.#tell('over', {});
  }

  #event(event) {
    if (event.error) this.#tell('failed', { message: event.error.message });
    else if (event.type === 'transcript.text.segment') this.#tell('segment', event);
    else if (event.type === 'streamscribe.progress') this.#tell('progress', event);
  }
}
