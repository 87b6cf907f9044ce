// The line of news at the foot of the page, which screen readers read out: not more often than they can.

import { $ } from "./dom.js";

/** Between two announcements, ms. */
const EVERY_MS = 1_500;
/** News told one by one; of more their number. */
const TOLD = 3;

export class Announcer {
  constructor() {
    this.waiting = [];
    this.timer = null;
  }

  say(news) {
    this.waiting.push(news);
    if (this.timer === null) this.#tell();
  }

  #tell() {
    const news = this.waiting.splice(0);
    if (!news.length) {
      this.timer = null;
      return;
    }
    const shown = news.slice(-TOLD);
    const more = news.length - shown.length;
    $("news").textContent = (more ? `${more} earlier. ` : "") + shown.join(" ");
    this.timer = setTimeout(() => this.#tell(), EVERY_MS);
  }
}
