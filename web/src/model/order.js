// The order ticket's rules: what the door would refuse is said before it is sent.

import { padded, placesOf, scaled } from "./decimal.js";
import { PRICE_PLACES } from "./book.js";

export const TIMES_IN_FORCE = ["day", "gtc", "ioc", "fok"];

/** What is wrong with a typed price, or "". */
export function priceComplaint(text, instrument) {
  const units = scaled(text, PRICE_PLACES);
  if (units === null || units === 0n) return `A price above 0 with at most ${PRICE_PLACES} decimals, like 101.25.`;
  const tick = scaled(instrument.tick, PRICE_PLACES);
  if (tick && units % tick !== 0n) return `Prices of ${instrument.symbol} are multiples of ${padded(instrument.tick, 0)}.`;
  const most = scaled(instrument.price_max, PRICE_PLACES);
  if (most !== null && units > most) return `At most ${padded(instrument.price_max, 0)}.`;
  return "";
}

/** What is wrong with a typed quantity, or "". */
export function qtyComplaint(text, instrument) {
  const places = placesOf(instrument.lot);
  const lots = scaled(text, places);
  if (lots === null || lots === 0n) {
    return places ? `A quantity above 0 with at most ${places} decimals.` : "A whole quantity above 0.";
  }
  const most = scaled(instrument.qty_max, places);
  if (most !== null && lots > most) return `At most ${instrument.qty_max}.`;
  return "";
}

/** A client order id that nobody else uses: 14 letters and digits out of the system's randomness. */
export function clientOrderId(random = crypto) {
  const letters = "0123456789abcdefghijklmnopqrstuv";
  const bytes = random.getRandomValues(new Uint8Array(13));
  return "p" + Array.from(bytes, (byte) => letters[byte & 31]).join("");
}

/** The body of POST /v1/orders. */
export function newOrder({ symbol, side, type, qty, price, timeInForce, postOnly }, id) {
  const body = { client_order_id: id, symbol, side, type, qty, time_in_force: timeInForce };
  if (type === "limit") {
    body.price = price;
    body.post_only = postOnly;
  }
  return body;
}
