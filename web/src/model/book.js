// An instrument's book, rebuilt from the snapshot and updates of the door's channel `book`.
//
// An update counts when its prev_seq is the book's seq; what is not above it is passed over; anything else is
// a gap. After each the checksum of the ten best levels of both sides is compared. A book with a gap or a
// wrong checksum takes nothing before the next snapshot.

import { crc32 } from "./crc32.js";
import { digits, scaled } from "./decimal.js";

/** Places of a price. */
export const PRICE_PLACES = 4;
/** Levels of a side that the checksum covers. */
const CHECKED = 10;
/** Places that a quantity may have. */
const QTY_PLACES = 19;

/** One side: levels of { key, price, qty, lots } sorted from the best. */
class Side {
  constructor(descending) {
    this.descending = descending;
    this.levels = [];
  }

  /** Where a price is, or would be. */
  find(key) {
    let [low, high] = [0, this.levels.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const there = this.levels[middle].key;
      if (this.descending ? there > key : there < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  set(price, qty) {
    const key = scaled(price, PRICE_PLACES);
    const lots = scaled(qty, QTY_PLACES);
    if (key === null || lots === null) return false;
    const at = this.find(key);
    const there = this.levels[at]?.key === key;
    if (lots === 0n) {
      if (there) this.levels.splice(at, 1);
    } else {
      this.levels.splice(at, there ? 1 : 0, { key, price, qty, lots });
    }
    return true;
  }
}

export class Book {
  constructor() {
    this.clear();
  }

  /** Nothing is known until the next snapshot. */
  clear() {
    this.bids = new Side(true);
    this.asks = new Side(false);
    this.seq = null;
  }

  /** Whether it follows the door. */
  get live() {
    return this.seq !== null;
  }

  /**
   * Takes a message of the channel: "ok", "old" (passed over), "waiting" (no snapshot yet), or why it has to
   * begin anew: "gap", "checksum", "malformed".
   */
  take(message) {
    const { type, seq, bids, asks, checksum } = message;
    if (!Number.isSafeInteger(seq) || !Array.isArray(bids) || !Array.isArray(asks)) return this.#lost("malformed");
    if (type === "snapshot") {
      this.clear();
    } else {
      if (!this.live) return "waiting";
      if (seq <= this.seq) return "old";
      if (message.prev_seq !== this.seq) return this.#lost("gap");
    }
    for (const [side, changes] of [[this.bids, bids], [this.asks, asks]]) {
      for (const level of changes) {
        if (!Array.isArray(level) || !side.set(level[0], level[1])) return this.#lost("malformed");
      }
    }
    this.seq = seq;
    return this.checksum() === checksum ? "ok" : this.#lost("checksum");
  }

  #lost(why) {
    this.clear();
    return why;
  }

  /** Of the ten best asks, then the ten best bids. */
  checksum() {
    let text = "";
    for (const side of [this.asks, this.bids]) {
      const most = Math.min(CHECKED, side.levels.length);
      for (let at = 0; at < most; at += 1) text += digits(side.levels[at].price) + digits(side.levels[at].qty);
    }
    return crc32(text);
  }

  /** The best bid and ask as texts, null where there is none, and what lies between in price units. */
  best() {
    const [bid, ask] = [this.bids.levels[0] ?? null, this.asks.levels[0] ?? null];
    return { bid, ask, spread: bid && ask ? ask.key - bid.key : null };
  }
}
