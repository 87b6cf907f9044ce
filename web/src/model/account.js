// Orders and fills of the signed-in account, as its private channels and replies tell of them.

import { scaled } from "./decimal.js";

/** Orders that are over, and fills, that are still shown. */
export const KEPT_MAX = 200;

const OVER = new Set(["filled", "cancelled", "rejected", "replaced"]);

/** Whether an order can neither trade nor be cancelled any more. */
export function isOver(order) {
  return OVER.has(order.state);
}

export class AccountModel {
  constructor() {
    this.clear();
  }

  clear() {
    /** By the exchange's number of the order, in the order of entry. */
    this.orders = new Map();
    this.fills = [];
    this.positions = [];
    /** Place in the account's stream up to which orders are known. */
    this.seq = -1;
    this.changes = 0;
  }

  /** The open orders, newest first. */
  open() {
    return [...this.orders.values()].filter((order) => !isOver(order)).reverse();
  }

  /** The orders that are over, newest first. */
  closed() {
    return [...this.orders.values()].filter(isOver).reverse();
  }

  /** Takes a message of `orders`: returns what changed, [] of a snapshot. */
  takeOrders(message) {
    this.changes += 1;
    if (message.type === "snapshot") {
      // What was open and is not told any more ended while nobody listened.
      for (const [number, order] of this.orders) if (!isOver(order)) this.orders.delete(number);
      for (const order of message.orders ?? []) this.orders.set(order.order_id, order);
      this.seq = message.seq ?? -1;
      return [];
    }
    if (!message.order || message.seq < this.seq) return [];
    this.seq = message.seq;
    return this.putOrder(message.order);
  }

  /** Takes an order as a reply tells it, which may come behind newer news: nothing over or traded is undone. */
  putOrder(order) {
    const was = this.orders.get(order.order_id);
    if (was && (isOver(was) || scaled(was.filled, 19) > scaled(order.filled, 19))) return [];
    this.changes += 1;
    this.orders.set(order.order_id, order);
    const over = this.orders.size > KEPT_MAX ? [...this.orders.values()].filter(isOver) : [];
    for (const old of over.slice(0, Math.max(0, over.length - KEPT_MAX))) this.orders.delete(old.order_id);
    return [order];
  }

  /** Takes a message of `fills`: returns the new fills. */
  takeFills(message) {
    this.changes += 1;
    if (message.type === "snapshot") {
      this.fills = (message.fills ?? []).slice(0, KEPT_MAX);
      return [];
    }
    if (message.broken !== undefined) {
      const right = message.corrected;
      this.fills = this.fills.flatMap((fill) => {
        if (fill.trade_id !== message.broken) return [fill];
        return right ? [{ ...right, corrected: true }] : [{ ...fill, broken: true }];
      });
      return [];
    }
    const fill = message.fill;
    const same = (one) => one.trade_id === fill.trade_id && one.order_id === fill.order_id;
    if (!fill || this.fills.some(same)) return [];
    this.fills.unshift(fill);
    if (this.fills.length > KEPT_MAX) this.fills.pop();
    return [fill];
  }

  /** Own open orders of a symbol: "buy 101.5" to how many are there. */
  levels(symbol) {
    const at = new Map();
    for (const order of this.orders.values()) {
      if (isOver(order) || order.symbol !== symbol || order.price === null) continue;
      const level = `${order.side} ${order.price}`;
      at.set(level, (at.get(level) ?? 0) + 1);
    }
    return at;
  }
}
