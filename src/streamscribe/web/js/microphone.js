// The microphone as 100 ms chunks of 16-bit PCM at the device's rate (the server resamples).

const MAX_RATE = 48000;
const REFUSALS = { NotFoundError: 'micMissing', OverconstrainedError: 'micMissing', NotReadableError: 'micBusy', AbortError: 'micBusy' };
const WANTED = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: true };

export class Microphone {
  #context;
  #stream;
  #capture;

  /**
   * Opens the microphone and returns its sample rate; `onChunk(buffer, peak)` gets the audio, `onEnd` is called when
   * the device is gone. Throws an Error whose message is a key of i18n.js when there is none to be had.
   */
  async open(onChunk, onEnd) {
    if (!navigator.mediaDevices?.getUserMedia) throw new Error('micInsecure');
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: WANTED });
    } catch (error) {
      throw new Error(REFUSALS[error.name] ?? 'micDenied', { cause: error });
    }
    this.#stream.getAudioTracks()[0].onended = onEnd;
    try {
      return await this.#capturing(onChunk);
    } catch (error) {
      await this.close();
      throw new Error('unreachable', { cause: error }); // the worklet is a file of the server
    }
  }

  async #capturing(onChunk) {
    this.#context = new AudioContext();
    if (this.#context.sampleRate > MAX_RATE) {
      await this.#context.close();
      this.#context = new AudioContext({ sampleRate: MAX_RATE });
    }
    await this.#context.audioWorklet.addModule('/assets/js/worklet.js');
    await this.#context.resume();
    this.#capture = new AudioWorkletNode(this.#context, 'capture', { numberOfOutputs: 0, channelCount: 1, channelCountMode: 'explicit' });
    this.#capture.port.onmessage = ({ data }) => onChunk(data.buffer, data.peak);
    this.#context.createMediaStreamSource(this.#stream).connect(this.#capture);
    return this.#context.sampleRate;
  }

  /** Gives the device back; the last chunk has been handed out when this is done. */
  async close() {
    const capture = this.#capture;
    this.#capture = null;
    if (capture && this.#context.state === 'running') {
      const onChunk = capture.port.onmessage;
      await new Promise((resolve) => {
        capture.port.onmessage = (event) => (event.data ? onChunk(event) : resolve());
        capture.port.postMessage('finish');
      });
    }
    this.#stream?.getTracks().forEach((track) => track.stop());
    if (this.#context && this.#context.state !== 'closed') await this.#context.close();
  }
}
