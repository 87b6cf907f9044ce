// The book as a ladder: a fixed number of rows whose texts change, bars of the quantity summed up.

import { PRICE_PLACES } from "../model/book.js";
import { padded, placesOf, short, text } from "../model/decimal.js";
import { $, element, setAttribute, setText, write } from "./dom.js";

/** Levels of a side. */
const LEVELS = 12;

export class Ladder {
  /** `pick(price)` hears of a price that was chosen. */
  constructor(pick) {
    this.rows = { asks: [], bids: [] };
    for (const side of ["asks", "bids"]) {
      for (let level = 0; level < LEVELS; level += 1) {
        const button = element("button", { type: "button", kind: "price", tabindex: "-1" });
        button.addEventListener("click", () => button.textContent && pick(button.textContent));
        const made = element("tr", {}, element("th", { scope: "row", kind: "n" }, button));
        for (const kind of ["n", "n muted", "n own"]) made.append(element("td", { kind }));
        this.rows[side].push(made);
      }
      const shown = side === "asks" ? [...this.rows.asks].reverse() : this.rows.bids;
      $(side).append(...shown);
    }
    /** All rows from the top. */
    this.all = [...this.rows.asks].reverse().concat(this.rows.bids);
    this.at = LEVELS;
    this.#rove(LEVELS, false);
    $("ladder").addEventListener("keydown", (event) => this.#key(event));
    $("ladder").addEventListener("focusin", (event) => {
      const at = this.all.findIndex((one) => one.contains(event.target));
      if (at >= 0) this.#rove(at, false);
    });
  }

  focus() {
    this.#rove(this.at, true);
  }

  #button(at) {
    return this.all[at].cells[0].firstElementChild;
  }

  /** One price is in the tab order at a time. */
  #rove(at, focus) {
    this.#button(this.at).tabIndex = -1;
    this.at = at;
    this.#button(at).tabIndex = 0;
    if (focus) this.#button(at).focus();
  }

  #key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -5, PageDown: 5, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.#rove(Math.max(0, Math.min(this.all.length - 1, this.at + step)), true);
  }

  render(book, instrument, own) {
    const tick = instrument ? placesOf(instrument.tick) : 2;
    const lot = instrument ? placesOf(instrument.lot) : 0;
    const sums = {};
    let most = 1n;
    for (const side of ["asks", "bids"]) {
      let sum = 0n;
      sums[side] = book[side].levels.slice(0, LEVELS).map((level) => (sum += level.lots));
      if (sum > most) most = sum;
    }
    for (const side of ["asks", "bids"]) {
      this.rows[side].forEach((made, at) => {
        const level = book[side].levels[at];
        const button = made.cells[0].firstElementChild;
        const label = level ? padded(level.price, tick) : "";
        setText(button, label);
        setAttribute(button, "aria-label", label ? null : "no level");
        const mine = level ? own.get(`${side === "asks" ? "sell" : "buy"} ${level.price}`) : 0;
        const sum = level ? sums[side][at] : 0n;
        const texts = level ? [level.qty, short(text(sum, 19)), mine ? `${mine} ●` : ""] : ["", "", ""];
        texts.forEach((one, column) => setText(made.cells[column + 1], padded(one, column < 2 ? lot : 0)));
        // For drawing alone.
        const share = `${Number((sum * 1_000n) / most) / 10}%`;
        if (made.share !== share) {
          made.share = share;
          made.style.setProperty("--bar", share);
        }
      });
    }
    const { spread } = book.best();
    setText($("spread"), spread === null ? "–" : text(spread, PRICE_PLACES, tick));
  }
}

/** The list of last trades. */
export class Tape {
  constructor() {
    this.rows = Array.from({ length: 40 }, () => {
      const made = element("tr", { hidden: "" }, element("td"), element("td"), element("td", { kind: "n" }), element("td", { kind: "n" }));
      return made;
    });
    $("tape").append(...this.rows);
  }

  render(trades, instrument, timeOfDay) {
    const tick = instrument ? placesOf(instrument.tick) : 2;
    this.rows.forEach((made, at) => {
      const trade = trades.all[at];
      made.hidden = !trade;
      if (!trade) return;
      const side = { buy: "Buy", sell: "Sell" }[trade.aggressor] ?? "Auction";
      const kind = (trade.broken ? "broken " : "") + (trade.aggressor ?? "");
      if (made.className !== kind) made.className = kind;
      trade.clock ??= timeOfDay(trade.time_ns);
      write(made, [trade.clock, trade.broken ? `${side}, broken` : side, padded(trade.price, tick), trade.qty]);
    });
  }
}
