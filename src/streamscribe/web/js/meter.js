// The microphone's level over the last seconds, a bar for each 100 ms.

const BARS = 40;
const FLOOR_DB = -50;
const LOWEST = 0.09; // a quiet bar is still a dot

export class Meter {
  #element;
  #levels = new Array(BARS).fill(0);

  constructor(element) {
    this.#element = element;
    element.replaceChildren(...this.#levels.map(() => document.createElement('i')));
  }

  /** Takes the peak (0 to 1) of the next 100 ms. Decibels read better than amplitude: -50 dB is empty, 0 dB full. */
  show(peak) {
    const level = Math.max(0, Math.min(1, 1 - (20 * Math.log10(peak + 1e-6)) / FLOOR_DB));
    this.#levels = [...this.#levels.slice(1), level];
    this.#draw();
  }

  clear() {
    this.#levels.fill(0);
    this.#draw();
  }

  #draw() {
    this.#levels.forEach((level, i) => {
      const bar = this.#element.children[i];
      bar.style.transform = `scaleY(${Math.max(LOWEST, level)})`;
      bar.classList.toggle('loud', level > LOWEST);
    });
    this.#element.setAttribute('aria-valuenow', Math.round(this.#levels.at(-1) * 100));
  }
}
