// A full client of the native protocol (docs/protocol.md): sequenced audio, acks, and resume after a broken socket.

const RETRIES_MS = [200, 500, 1000, 2000, 4000, 8000];
const BROKEN = [1001, 1006, 1012]; // close codes of a connection, not of the session behind it
const MAX_UNACKED = 600; // a minute of 100 ms chunks
const SILENCE_MS = 15_000; // a server that says nothing for so long while it is spoken to is not there
const NOT_FOUND = 4404;

export class Session {
  #on;
  #start;
  #key;
  #socket = null;
  #identity = null;
  #sequence = 0;
  #unacked = [];
  #acked = null;
  #version = 0;
  #heardAt = 0;
  #retry = 0;
  #live = false;
  #ended = false;
  #delivered = false;
  #over = false;
  #error = null;

  /**
   * `start` is the body of the protocol's start message, without `framing`. Of `on`, the function named like a message
   * gets that message; `live()` and `reconnecting()` tell of the connection, and `over({ outcome, error })` comes last:
   * `end`, `lost`, or `refused` where no session came to be.
   */
  constructor(start, key, on) {
    this.#start = { type: 'start', framing: 'sequenced', ...start };
    this.#key = key;
    this.#on = on;
    this.#connect();
  }

  /** Sends a chunk (ArrayBuffer of samples); kept until the server acknowledges it. */
  send(samples) {
    if (this.#ended || this.#over) return;
    const framed = new Uint8Array(8 + samples.byteLength);
    new DataView(framed.buffer).setUint32(0, this.#sequence);
    framed.set(new Uint8Array(samples), 8);
    this.#unacked.push({ sequence: this.#sequence++, framed });
    if (this.#unacked.length > MAX_UNACKED) this.#finish('lost');
    else if (this.#live) this.#socket.send(framed);
    if (this.#live && performance.now() - this.#heardAt > SILENCE_MS) this.#drop();
  }

  /** No more audio: the last finals follow. */
  end() {
    this.#ended = true;
    if (this.#live) this.#socket.send('{"type":"end"}');
  }

  #connect() {
    const url = new URL('/ws/asr', location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    if (this.#identity) url.searchParams.set('session_id', this.#identity.session_id);
    const socket = new WebSocket(url, this.#key ? ['streamscribe', `streamscribe.key.${this.#key}`] : []);
    socket.onopen = () => this.#identity && socket.send(JSON.stringify({
      type: 'resume', session_id: this.#identity.session_id, resume_token: this.#identity.resume_token,
      framing: 'sequenced', last_version: this.#version, last_acked_sequence: this.#acked,
    }));
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => this.#closed(code);
    this.#socket = socket;
  }

  #receive(message) {
    this.#heardAt = performance.now();
    this.#error = message.type === 'error' ? message : null;
    if (message.type === 'connected' && this.#identity) return; // of a session that the resume will replace
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
      this.#delivered = true;
    }
    this.#on[message.type]?.(message);
  }

  #resend(next) {
    this.#live = true;
    this.#retry = 0;
    for (const { sequence, framed } of this.#unacked) if (sequence >= next) this.#socket.send(framed);
    if (this.#ended) this.#socket.send('{"type":"end"}');
    this.#on.live?.();
  }

  /** The connection is dead although nobody said so: waiting for the end of its handshake would take a minute. */
  #drop() {
    this.#socket.onclose = this.#socket.onmessage = null;
    this.#socket.close();
    this.#closed(1006);
  }

  #closed(code) {
    this.#live = false;
    if (this.#delivered) return this.#finish('end');
    // A session that never acknowledged audio is not kept by the server, and nothing is lost by beginning anew.
    const anew = code === NOT_FOUND && this.#identity && this.#acked === null;
    const broken = this.#error ? this.#error.retry === 'resume' : BROKEN.includes(code);
    if (!this.#identity || !(anew || broken) || this.#retry === RETRIES_MS.length) {
      return this.#finish(this.#identity ? 'lost' : 'refused');
    }
    if (anew) this.#identity = null;
    this.#on.reconnecting?.();
    return setTimeout(() => this.#over || this.#connect(), RETRIES_MS[this.#retry++]);
  }

  #finish(outcome) {
    if (this.#over) return;
    this.#over = true;
    this.#socket.close();
    this.#on.over?.({ outcome, error: this.#error });
  }
}
