// Runs in the audio thread: gathers 100 ms of mono samples, measures their level, and posts them as 16-bit PCM.

class Capture extends AudioWorkletProcessor {
  #chunk = new Int16Array(Math.round(sampleRate / 10));
  #filled = 0;
  #peak = 0;
  #over = false;

  constructor() {
    super();
    this.port.onmessage = () => { // asked to finish: what is left goes out, and that it was the last
      this.#over = true;
      this.#post();
      this.port.postMessage(null);
    };
  }

  process([input]) {
    for (const sample of input[0] ?? []) {
      const value = Math.max(-1, Math.min(1, sample));
      this.#peak = Math.max(this.#peak, Math.abs(value));
      this.#chunk[this.#filled++] = value < 0 ? value * 0x8000 : value * 0x7fff;
      if (this.#filled === this.#chunk.length) this.#post();
    }
    return !this.#over;
  }

  #post() {
    if (!this.#filled) return;
    const { buffer } = this.#chunk.slice(0, this.#filled);
    this.port.postMessage({ buffer, peak: this.#peak }, [buffer]);
    this.#filled = this.#peak = 0;
  }
}

registerProcessor('capture', Capture);
