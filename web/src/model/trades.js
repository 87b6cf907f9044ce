// The last trades of an instrument, newest first.

/** How many are kept. */
export const TRADES_MAX = 1_000;

export class Trades {
  constructor() {
    this.clear();
  }

  clear() {
    this.all = [];
    /** Trades taken since the page began: tells views that something changed. */
    this.changes = 0;
  }

  /** Takes a message of the channel `trades`. */
  take(message) {
    this.changes += 1;
    if (message.type === "snapshot") {
      this.all = (message.trades ?? []).slice(0, TRADES_MAX);
      return;
    }
    const trade = message.trade;
    if (!trade) return;
    // Told again behind a snapshot, or broken later.
    const known = this.all.findIndex((one) => one.trade_id === trade.trade_id);
    if (trade.broken) {
      if (known >= 0) this.all[known] = { ...this.all[known], broken: true };
    } else if (known < 0) {
      this.all.unshift(trade);
      if (this.all.length > TRADES_MAX) this.all.pop();
    }
  }
}

/** ns since midnight as hours to milliseconds. */
export function timeOfDay(ns) {
  if (!/^[0-9]{1,20}$/.test(ns ?? "")) return "";
  const ms = BigInt(ns) / 1_000_000n;
  const two = (of) => of.toString().padStart(2, "0");
  const seconds = ms / 1_000n;
  const clock = [seconds / 3_600n, (seconds / 60n) % 60n, seconds % 60n].map(two).join(":");
  return `${clock}.${(ms % 1_000n).toString().padStart(3, "0")}`;
}
