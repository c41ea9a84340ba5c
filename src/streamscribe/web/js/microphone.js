// The microphone as 100 ms chunks of 16-bit PCM at the device's rate (the server resamples).

const MAX_RATE = 48000;

export class Microphone {
  #context;
  #stream;

  /** Opens the microphone; throws an Error whose message is a key of i18n.js when it cannot be had. */
  async open(onChunk) {
    if (!navigator.mediaDevices?.getUserMedia) throw new Error('micInsecure');
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
    } catch (error) {
      throw new Error(error.name === 'NotFoundError' || error.name === 'OverconstrainedError' ? 'micMissing' : 'micDenied', { cause: error });
    }
    this.#context = new AudioContext();
    if (this.#context.sampleRate > MAX_RATE) {
      await this.#context.close();
      this.#context = new AudioContext({ sampleRate: MAX_RATE });
    }
    await this.#context.audioWorklet.addModule('/assets/js/worklet.js');
    const capture = new AudioWorkletNode(this.#context, 'capture', { numberOfOutputs: 0, channelCount: 1, channelCountMode: 'explicit' });
    capture.port.onmessage = ({ data }) => onChunk(data.buffer, data.peak);
    this.#context.createMediaStreamSource(this.#stream).connect(capture);
    return this.#context.sampleRate;
  }

  async close() {
    this.#stream?.getTracks().forEach((track) => track.stop());
    await this.#context?.close();
  }
}
