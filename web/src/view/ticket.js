// The order ticket: a new order, or a replacement of one.

import { clientOrderId, newOrder, priceComplaint, qtyComplaint } from "../model/order.js";
import { padded } from "../model/decimal.js";
import { $, setAttribute, setText } from "./dom.js";

export class Ticket {
  constructor(app) {
    this.app = app;
    this.form = $("ticket-form");
    /** The order that is being replaced. */
    this.replaced = null;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.form.addEventListener("change", () => this.render());
    $("replace-leave").addEventListener("click", () => this.leave());
    for (const id of ["qty", "price"]) {
      $(id).addEventListener("input", () => $(id).getAttribute("aria-invalid") && this.#check());
    }
  }

  get #values() {
    const { side, type, qty, price, tif } = this.form.elements;
    return {
      symbol: this.replaced?.symbol ?? this.app.symbol,
      side: side.value,
      type: type.value,
      qty: qty.value.trim(),
      price: price.value.trim(),
      timeInForce: tif.value,
      postOnly: $("post-only").checked,
    };
  }

  get #instrument() {
    const symbol = this.replaced?.symbol ?? this.app.symbol;
    return this.app.instruments.find((one) => one.symbol === symbol);
  }

  /** Side, and the focus where its quantity is typed. */
  begin(side) {
    if (this.replaced) this.leave();
    this.form.elements.side.value = side;
    this.render();
    $("qty").focus();
    $("qty").select();
  }

  /** Takes a price out of the book. */
  pick(price) {
    if (!this.replaced) this.form.elements.type.value = "limit";
    $("price").value = price;
    this.render();
    this.app.announcer.say(`Price ${price} in the ticket.`);
  }

  replace(order) {
    this.replaced = order;
    this.form.elements.side.value = order.side;
    this.form.elements.type.value = "limit";
    $("qty").value = order.qty;
    $("price").value = order.price ?? "";
    this.render();
    $("ticket").scrollIntoView({ block: "nearest" });
    $("price").focus();
    $("price").select();
  }

  leave() {
    this.replaced = null;
    setText($("ticket-result"), "");
    this.render();
    $("qty").focus();
  }

  render() {
    const { replaced } = this;
    const values = this.#values;
    const instrument = this.#instrument;
    const name = { buy: "Buy", sell: "Sell" }[values.side];
    setText($("ticket-title"), replaced ? `Replace ${replaced.client_order_id}` : "New order");
    $("side-set").disabled = $("type-set").disabled = replaced !== null;
    $("tif").disabled = $("post-only").disabled = replaced !== null;
    $("replace-leave").hidden = replaced === null;
    const market = values.type === "market";
    $("price-field").hidden = market;
    $("post-only-label").hidden = market || replaced !== null;
    setText($("qty-label"), replaced ? "Total quantity" : "Quantity");
    const hint = instrument ? `Multiples of ${instrument.lot}.` : "";
    setText($("qty-hint"), replaced ? `What has traded (${replaced.filled}) included. ${hint}` : hint);
    setText($("price-hint"), instrument ? `Multiples of ${padded(instrument.tick, 0)}.` : "");
    const send = $("send");
    setText(send, replaced ? `Replace in ${values.symbol}` : `${name} ${values.symbol ?? ""}`);
    setAttribute(send, "data-side", values.side);
    send.disabled = !this.app.api.signer;
    // Not disabled: it would lose the focus.
    setAttribute(send, "aria-disabled", this.busy ? "true" : null);
    setAttribute(send, "title", this.app.api.signer ? null : "Sign in first");
  }

  #check() {
    const values = this.#values;
    const instrument = this.#instrument;
    const wrong = {
      qty: instrument ? qtyComplaint(values.qty, instrument) : "No market is selected.",
      price: values.type === "market" || !instrument ? "" : priceComplaint(values.price, instrument),
    };
    for (const [id, complaint] of Object.entries(wrong)) {
      setText($(`${id}-error`), complaint);
      setAttribute($(id), "aria-invalid", complaint ? "true" : null);
    }
    const first = ["qty", "price"].find((id) => wrong[id]);
    if (first) $(first).focus();
    return !first;
  }

  async #send() {
    const { app, replaced } = this;
    const result = $("ticket-result");
    setText(result, "");
    if (!app.api.signer || this.busy || !this.#check()) return;
    const values = this.#values;
    const id = clientOrderId();
    this.busy = true;
    this.render();
    try {
      const order = replaced
        ? await app.api.once("PUT", `/v1/orders/${replaced.client_order_id}`, { client_order_id: id, qty: values.qty, price: values.price })
        : await app.api.once("POST", "/v1/orders", newOrder(values, id));
      if (order.order_id) {
        app.account.putOrder(order);
        app.frames.mark("orders", "ladder");
      }
      const what = order.state === "pending" ? "No answer from the exchange yet; the list of orders will tell." : "";
      setText(result, what);
      app.announcer.say(what || `${replaced ? "Replacement" : "Order"} ${id}: ${order.state === "open" ? "accepted" : order.state}.`);
      if (replaced) this.replaced = null;
    } catch (refused) {
      setText(result, `${refused.message} (${refused.code})`);
    } finally {
      this.busy = false;
      this.render();
      app.frames.mark("session");
    }
  }
}
