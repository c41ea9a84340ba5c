// What is said into the microphone, as a session: one from the press of the button to the last final.

import { Microphone } from './microphone.js';
import { Session } from './session.js';

export class Dictation {
  #microphone = new Microphone();
  #on;
  #session = null;
  #spokenMs = 0;
  #stopping = false;

  /** `on` is that of Session, and `heard({ peak, ms })` for each chunk: its level, and how long it has been spoken. */
  constructor(on) {
    this.#on = on;
  }

  /** Throws an Error whose message is a key of i18n.js when there is no microphone; `over` does not follow then. */
  async start(options, key) {
    const rate = await this.#microphone.open((samples, peak) => this.#heard(samples, peak), () => this.stop());
    this.#session = new Session({ audio: { encoding: 'pcm_s16le', sample_rate: rate, channels: 1 }, mode: '2pass', ...options }, key, {
      ...this.#on,
      over: async (end) => {
        await this.#microphone.close();
        this.#on.over(end);
      },
    });
    if (this.#stopping) await this.#end();
  }

  /** Ends it, at once or, while the browser still asks for permission, as soon as it has it. */
  async stop() {
    if (this.#stopping) return;
    this.#stopping = true;
    if (this.#session) await this.#end();
  }

  async #end() {
    await this.#microphone.close();
    this.#session.end();
  }

  #heard(samples, peak) {
    this.#session.send(samples);
    this.#spokenMs += 100;
    this.#on.heard({ peak, ms: this.#spokenMs });
  }
}
