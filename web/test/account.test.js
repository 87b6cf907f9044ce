import assert from "node:assert/strict";
import test from "node:test";
import { AccountModel, KEPT_MAX } from "../src/model/account.js";
import { clientOrderId, newOrder, priceComplaint, qtyComplaint } from "../src/model/order.js";
import { TRADES_MAX, Trades, timeOfDay } from "../src/model/trades.js";

const order = (id, state, filled = "0") => ({ order_id: id, client_order_id: `c${id}`, symbol: "AAA", side: "buy", price: "10.5", qty: "9", open: "9", filled, state });

test("orders follow the stream, and a late reply undoes nothing", () => {
  const account = new AccountModel();
  account.takeOrders({ type: "snapshot", seq: 10, orders: [order("1", "open"), order("2", "open")] });
  assert.deepEqual(account.open().map((one) => one.order_id), ["2", "1"]);
  assert.deepEqual(account.takeOrders({ seq: 9, order: order("1", "pending") }), [], "older than the snapshot");
  assert.equal(account.takeOrders({ seq: 11, order: order("1", "open", "4") }).length, 1);
  assert.deepEqual(account.putOrder(order("1", "open")), [], "a reply from before the fill");
  assert.equal(account.orders.get("1").filled, "4");
  account.takeOrders({ seq: 12, order: order("1", "filled", "9") });
  account.putOrder(order("1", "open", "9"));
  assert.deepEqual([account.open().length, account.closed()[0].state], [1, "filled"]);
  assert.deepEqual([...account.levels("AAA")], [["buy 10.5", 1]]);
  // Ended while the connection was gone.
  account.takeOrders({ type: "snapshot", seq: 20, orders: [] });
  assert.equal(account.open().length, 0);
});

test("fills are told once, broken and corrected ones marked", () => {
  const account = new AccountModel();
  const fill = { trade_id: "7", order_id: "1", symbol: "AAA", side: "buy", qty: "4", price: "10.5", time_ns: "1" };
  assert.equal(account.takeFills({ fill }).length, 1);
  assert.equal(account.takeFills({ fill }).length, 0);
  account.takeFills({ broken: "7", corrected: { ...fill, price: "10.4" } });
  assert.deepEqual([account.fills[0].price, account.fills[0].corrected], ["10.4", true]);
  account.takeFills({ broken: "7", corrected: null });
  assert.equal(account.fills[0].broken, true);
});

test("memory is bounded", () => {
  const [account, trades] = [new AccountModel(), new Trades()];
  for (let n = 0; n < 3_000; n += 1) {
    account.takeOrders({ seq: n, order: order(String(n), "cancelled") });
    account.takeFills({ fill: { trade_id: String(n), order_id: "1" } });
    trades.take({ trade: { trade_id: String(n), price: "1", qty: "1" } });
  }
  assert.deepEqual([account.orders.size, account.fills.length, trades.all.length], [KEPT_MAX, KEPT_MAX, TRADES_MAX]);
  assert.equal(trades.all[0].trade_id, "2999");
});

test("trades are told once and broken later", () => {
  const trades = new Trades();
  trades.take({ type: "snapshot", trades: [{ trade_id: "2" }, { trade_id: "1" }] });
  trades.take({ trade: { trade_id: "2" } });
  trades.take({ trade: { trade_id: "1", broken: true } });
  assert.deepEqual(trades.all.map((one) => [one.trade_id, one.broken ?? false]), [["2", false], ["1", true]]);
  assert.equal(timeOfDay("45296789000000"), "12:34:56.789");
  assert.equal(timeOfDay("x"), "");
});

test("the ticket says what the door would refuse", () => {
  const instrument = { symbol: "AAA", tick: "0.0500", price_max: "200", lot: "0.001", qty_max: "5" };
  assert.equal(priceComplaint("10.05", instrument), "");
  for (const wrong of ["10.06", "0", "", "x", "200.05", "-1", "1e1", "1.00001"]) assert.notEqual(priceComplaint(wrong, instrument), "", wrong);
  assert.equal(qtyComplaint("4.999", instrument), "");
  for (const wrong of ["0", "5.001", "0.0001", "", "five"]) assert.notEqual(qtyComplaint(wrong, instrument), "", wrong);
  const terms = { symbol: "AAA", side: "buy", qty: "1", price: "2", timeInForce: "ioc", postOnly: true };
  assert.deepEqual(newOrder({ ...terms, type: "market" }, "i"), { client_order_id: "i", symbol: "AAA", side: "buy", type: "market", qty: "1", time_in_force: "ioc" });
  assert.equal(newOrder({ ...terms, type: "limit" }, "i").post_only, true);
  const ids = new Set(Array.from({ length: 500 }, () => clientOrderId()));
  assert.equal(ids.size, 500);
  for (const id of ids) assert.match(id, /^[0-9a-z]{14}$/);
});
