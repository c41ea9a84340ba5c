// Runs in the audio thread: gathers 100 ms of mono samples, measures their level, and posts them as 16-bit PCM.

class Capture extends AudioWorkletProcessor {
  #chunk = new Int16Array(Math.round(sampleRate / 10));
  #filled = 0;
  #peak = 0;

  process([input]) {
    const samples = input[0];
    if (!samples) return true;
    for (let i = 0; i < samples.length; i++) {
      const value = Math.max(-1, Math.min(1, samples[i]));
      this.#peak = Math.max(this.#peak, Math.abs(value));
      this.#chunk[this.#filled++] = value < 0 ? value * 0x8000 : value * 0x7fff;
      if (this.#filled === this.#chunk.length) {
        const { buffer } = this.#chunk;
        this.port.postMessage({ buffer, peak: this.#peak }, [buffer]);
        this.#chunk = new Int16Array(Math.round(sampleRate / 10));
        this.#filled = this.#peak = 0;
      }
    }
    return true;
  }
}

registerProcessor('capture', Capture);
