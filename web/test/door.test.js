import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import test from "node:test";
import { Api } from "../src/door/api.js";
import { nonce, signer } from "../src/door/sign.js";
import { Socket, backoff } from "../src/door/socket.js";

test("signatures are HMAC-SHA256 in hexadecimal", async () => {
  // RFC 4231, test case 2.
  const jefe = await signer("k", "Jefe");
  const due = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  assert.equal(await jefe.sign("", "", "", "", "what do ya want for nothing?"), due);
  assert.equal(await jefe.sign("what ", "do ", "ya ", "want ", "for nothing?"), due);
  const own = await signer("k", "0123456789abcdef");
  const body = JSON.stringify({ symbol: "Ä", qty: "1" });
  const text = `1790000000000nPOST/v1/orders${body}`;
  assert.equal(await own.sign("1790000000000", "n", "POST", "/v1/orders", body), createHmac("sha256", "0123456789abcdef").update(text).digest("hex"));
  assert.equal(Object.values(own).includes("0123456789abcdef"), false, "the secret is not kept");
  assert.match(nonce(), /^[0-9a-f]{32}$/);
  assert.notEqual(nonce(), nonce());
});

test("a request whose answer is lost is sent again under its client order id, and signed anew", async (t) => {
  const seen = [];
  const answers = [
    () => { throw new TypeError("gone"); },
    () => new Response('{"error":{"code":"busy","message":"wait"}}', { status: 503 }),
    () => new Response('{"state":"open","order_id":"1"}', { headers: { "FB-CREDITS-LEFT": "9" } }),
    () => new Response('{"error":{"code":"rejected","message":"no"}}', { status: 422 }),
    () => new Response("<html>", { status: 502 }),
  ];
  t.mock.method(globalThis, "fetch", async (path, options) => {
    seen.push({ path, ...options });
    return answers.shift()();
  });
  const api = new Api();
  await assert.rejects(api.own("GET", "/v1/orders"), { code: "missing_header" });
  api.signer = await signer("desk", "0123456789abcdef");
  const told = await api.once("POST", "/v1/orders", { client_order_id: "a" });
  assert.deepEqual([told.state, api.credits, seen.length], ["open", "9", 3]);
  assert.equal(new Set(seen.map((one) => one.body)).size, 1);
  assert.equal(new Set(seen.map((one) => one.headers["FB-SIGN"])).size, 3);
  await assert.rejects(api.once("POST", "/v1/orders", {}), { code: "rejected", message: "no", status: 422 });
  await assert.rejects(api.own("GET", "/v1/orders"), { code: "no_answer" });
});

/** What the socket does, without a network. */
class Wire {
  static all = [];
  constructor() {
    this.readyState = 0;
    this.sent = [];
    Wire.all.push(this);
  }
  open() { this.readyState = 1; this.onopen(); }
  send(text) { this.sent.push(JSON.parse(text)); }
  say(message) { this.onmessage({ data: JSON.stringify(message) }); }
  close() { this.readyState = 3; this.onclose(); }
}

const settled = () => new Promise((done) => setImmediate(done));

test("subscriptions and the sign-in come again on a new connection", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  Wire.all = [];
  const states = [];
  const heard = [];
  const on = { state: (of) => states.push(of), message: (of) => heard.push(of), auth: async () => ({ key: "k" }), trouble: () => {} };
  const socket = new Socket("ws://x", on, () => new Wire());
  socket.subscribe(["book", "trades"], ["AAA"]);
  socket.connect();
  Wire.all[0].open();
  await settled();
  assert.deepEqual(Wire.all[0].sent.map((one) => one.op), ["subscribe", "subscribe", "auth"]);
  for (let n = 0; n < 3; n += 1) Wire.all[0].say({ channel: "ok" });
  await settled();
  assert.deepEqual(Wire.all[0].sent.at(-1), { op: "subscribe", channels: ["orders", "fills"] });
  Wire.all[0].say({ channel: "ok" });
  const refused = socket.setCancelOnDisconnect(true);
  Wire.all[0].say({ channel: "error", error: { code: "wrong_scope", message: "no" } });
  await assert.rejects(refused, { code: "wrong_scope" });
  Wire.all[0].say({ channel: "book", seq: 1 });
  assert.deepEqual(heard, [{ channel: "book", seq: 1 }]);
  socket.unsubscribe(["trades"], ["AAA"]);
  const asked = socket.ask({ op: "ping" });
  Wire.all[0].close();
  await assert.rejects(asked, /gone/);
  t.mock.timers.tick(10_000);
  assert.equal(Wire.all.length, 2);
  Wire.all[0].say({ channel: "late" });
  assert.equal(heard.length, 1, "the old connection is not heard any more");
  Wire.all[1].open();
  await settled();
  assert.deepEqual(Wire.all[1].sent.map((one) => one.channels), [["book"], undefined]);
  Wire.all[1].say({ channel: "ok" });
  await settled();
  assert.deepEqual(states, ["connecting", "live", "down", "connecting", "live"]);
  clearInterval(socket.timer);
});

test("waits grow to a bound, and random parts keep pages apart", () => {
  assert.deepEqual([backoff(0, 0), backoff(0, 1), backoff(3, 1), backoff(50, 1), backoff(50, 0)], [125, 250, 2_000, 8_000, 4_000]);
});
