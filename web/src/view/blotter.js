// Own orders, fills and positions.

import { padded, placesOf } from "../model/decimal.js";
import { timeOfDay } from "../model/trades.js";
import { $, element, keyed, row, setAttribute, setText, write } from "./dom.js";

const SIDES = { buy: "Buy", sell: "Sell" };
/** Rows of orders that are over, and of fills. */
const SHOWN_MAX = 100;

export class Blotter {
  constructor(app, ticket) {
    this.app = app;
    this.ticket = ticket;
    /** Orders whose cancel is on its way; their buttons stay as they are, for a disabled one loses the focus. */
    this.cancelling = new Set();
    $("cancel-all").addEventListener("click", () => this.askCancelAll());
    $("confirm").addEventListener("close", () => {
      if ($("confirm").returnValue === "yes") this.#cancelAll();
    });
  }

  #price(of) {
    const instrument = this.app.instruments.find((one) => one.symbol === of.symbol);
    if (of.price === null || of.price === undefined) return "market";
    return padded(of.price, instrument ? placesOf(instrument.tick) : 0);
  }

  renderOrders() {
    const { app } = this;
    const open = app.account.open();
    const make = (order) => {
      const made = row(["id", "", "side", "n", "n", "n", "", "", "change"]);
      const name = order.client_order_id;
      const replace = element("button", { type: "button", text: "Replace", "aria-label": `Replace ${name}` });
      const cancel = element("button", { type: "button", text: "Cancel", "aria-label": `Cancel ${name}`, kind: "danger" });
      replace.addEventListener("click", () => this.ticket.replace(app.account.orders.get(order.order_id) ?? order));
      cancel.addEventListener("click", () => this.#cancel(order));
      made.cells[8].append(replace, " ", cancel);
      return made;
    };
    const update = (made, order) => {
      const tif = { day: "Day", gtc: "Until cancelled", ioc: "Immediate", fok: "Fill or kill" }[order.time_in_force] ?? order.time_in_force;
      write(made, [order.client_order_id, order.symbol, SIDES[order.side], this.#price(order), order.open, order.filled, tif, order.state]);
      setAttribute(made.cells[2], "class", `side ${order.side}`);
      made.cells[8].firstElementChild.disabled = order.state !== "open" || order.price === null;
    };
    keyed($("open-rows"), open, (order) => order.order_id, make, update, $("orders-title"));
    $("open-none").hidden = open.length > 0;
    setText($("open-none"), app.api.signer ? "No open orders." : "Sign in to see your orders.");
    if (!open.length && document.activeElement === $("cancel-all")) $("orders-title").focus();
    $("cancel-all").disabled = !open.length;
    this.#renderClosed();
  }

  #renderClosed() {
    const closed = this.app.account.closed();
    setText($("closed-count"), String(closed.length));
    // A table that nobody sees is not written.
    const shown = $("closed").open ? closed.slice(0, SHOWN_MAX) : [];
    const make = () => row(["id", "", "side", "n", "n", "", ""]);
    const update = (made, order) => {
      write(made, [order.client_order_id, order.symbol, SIDES[order.side], this.#price(order), `${order.filled} of ${order.qty}`, order.state, order.reason ?? ""]);
      setAttribute(made.cells[2], "class", `side ${order.side}`);
    };
    keyed($("closed-rows"), shown, (order) => order.order_id, make, update, $("orders-title"));
  }

  renderFills() {
    const fills = this.app.account.fills.slice(0, SHOWN_MAX);
    const make = () => row(["", "", "side", "n", "n", "id"]);
    const update = (made, fill) => {
      const note = fill.broken ? " (broken)" : fill.corrected ? " (corrected)" : "";
      write(made, [timeOfDay(fill.time_ns), fill.symbol, SIDES[fill.side] + note, this.#price(fill), fill.qty, fill.client_order_id ?? ""]);
      setAttribute(made.cells[2], "class", `side ${fill.side}`);
      setAttribute(made, "class", fill.broken ? "broken" : null);
    };
    keyed($("fill-rows"), fills, (fill) => `${fill.trade_id} ${fill.order_id}`, make, update, $("fills-title"));
    $("fills-none").hidden = fills.length > 0;
  }

  renderPositions() {
    const positions = this.app.account.positions;
    const make = () => row(["", "n", "n", "n", "n"]);
    const update = (made, of) => write(made, [of.symbol, of.position, of.bought, of.sold, of.cash]);
    keyed($("position-rows"), positions, (of) => of.symbol, make, update, $("positions-title"));
    $("positions-none").hidden = positions.length > 0;
  }

  async #cancel(order) {
    const { app } = this;
    if (this.cancelling.has(order.order_id)) return;
    this.cancelling.add(order.order_id);
    try {
      const told = await app.api.once("DELETE", `/v1/orders/${order.client_order_id}`);
      if (told.order_id) app.account.putOrder(told);
    } catch (refused) {
      app.announcer.say(`Cancel ${order.client_order_id}: ${refused.message}`);
    } finally {
      this.cancelling.delete(order.order_id);
    }
    app.frames.mark("orders", "ladder", "session");
  }

  askCancelAll() {
    const open = this.app.account.open();
    if (!open.length) {
      this.app.announcer.say("There are no open orders.");
      return;
    }
    const symbols = new Set(open.map((order) => order.symbol));
    setText($("confirm-text"), `${open.length} open, in ${[...symbols].join(", ")}; orders of the account entered elsewhere go, too.`);
    $("confirm").returnValue = "no";
    $("confirm").showModal();
  }

  async #cancelAll() {
    const { app } = this;
    try {
      const told = await app.api.own("DELETE", "/v1/orders");
      app.announcer.say(told.state === "pending" ? "Cancel all: no answer yet." : `${told.cancelled} orders cancelled.`);
    } catch (refused) {
      app.announcer.say(`Cancel all: ${refused.message}`);
    }
    app.frames.mark("session");
  }
}
