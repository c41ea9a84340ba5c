// A full client of the native protocol (docs/protocol.md): sequenced audio, acks, and resume after a broken socket.

const RETRIES_MS = [200, 500, 1000, 2000, 4000, 8000];
const MAX_UNACKED = 600; // a minute of 100 ms chunks

export class Session extends EventTarget {
  #socket = null;
  #start;
  #key;
  #identity = null;
  #sequence = 0;
  #unacked = [];
  #acked = null;
  #version = 0;
  #ended = false;
  #over = false;
  #retry = 0;
  #live = false;

  /** `start` is the body of the protocol's start message, without `framing`. */
  constructor(start, key) {
    super();
    this.#start = { type: 'start', framing: 'sequenced', ...start };
    this.#key = key;
    this.#connect();
  }

  /** Sends a chunk (ArrayBuffer of samples); kept until the server acknowledges it. */
  send(samples) {
    const framed = new Uint8Array(8 + samples.byteLength);
    new DataView(framed.buffer).setUint32(0, this.#sequence);
    framed.set(new Uint8Array(samples), 8);
    this.#unacked.push({ sequence: this.#sequence++, framed });
    if (this.#unacked.length > MAX_UNACKED) return this.#finish('lost');
    if (this.#live) this.#socket.send(framed);
  }

  end() {
    this.#ended = true;
    if (this.#live) this.#socket.send('{"type":"end"}');
  }

  abort() {
    this.#over = true;
    this.#socket?.close();
  }

  #connect() {
    const url = new URL('/ws/asr', location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    if (this.#identity) url.searchParams.set('session_id', this.#identity.session_id);
    const protocols = this.#key ? ['streamscribe', `streamscribe.key.${this.#key}`] : [];
    this.#socket = new WebSocket(url, protocols);
    this.#socket.onopen = () => this.#identity && this.#socket.send(JSON.stringify({
      type: 'resume', session_id: this.#identity.session_id, resume_token: this.#identity.resume_token,
      framing: 'sequenced', last_version: this.#version, last_acked_sequence: this.#acked,
    }));
    this.#socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    this.#socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  #receive(message) {
    if (message.type === 'connected') {
      this.#identity = message;
      this.#socket.send(JSON.stringify(this.#start));
      this.#resend(0);
    } else if (message.type === 'resumed') {
      this.#resend(message.next_sequence);
    } else if (message.type === 'ack') {
      this.#acked = message.sequence;
      this.#unacked = this.#unacked.filter((chunk) => chunk.sequence > message.sequence);
    } else if (message.type === 'result') {
      this.#version = Math.max(this.#version, message.version);
    } else if (message.type === 'closed') {
      this.#over = true;
    }
    this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
  }

  #resend(next) {
    this.#live = true;
    this.#retry = 0;
    for (const chunk of this.#unacked) if (chunk.sequence >= next) this.#socket.send(chunk.framed);
    if (this.#ended) this.#socket.send('{"type":"end"}');
    this.dispatchEvent(new Event('live'));
  }

  #closed(code, reason) {
    this.#live = false;
    if (this.#over || code === 1000) return this.#finish('end');
    const mayResume = this.#identity && (code === 1006 || code === 1001 || code === 1012) && this.#retry < RETRIES_MS.length;
    if (!mayResume) return this.#finish(this.#identity ? 'lost' : 'refused', code, reason);
    this.dispatchEvent(new Event('reconnecting'));
    setTimeout(() => this.#over || this.#connect(), RETRIES_MS[this.#retry++]);
  }

  #finish(outcome, code = 1000, reason = '') {
    this.#over = true;
    this.#socket?.close();
    this.dispatchEvent(new CustomEvent('over', { detail: { outcome, code, reason } }));
  }
}
