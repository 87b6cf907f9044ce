// Requests to the door: public ones, and signed ones of a key.

import { nonce } from "./sign.js";

/** How long an answer is waited for; the door itself waits 3 s for the exchange. */
const ANSWER_MS = 8_000;
/** How often a request that counts once is sent again when its answer is lost. */
const TRIES = 3;
const RETRY_MS = 700;

/** A refusal: `code` as docs/web.md lists them, or "no_answer". */
export class Refused extends Error {
  constructor(code, message, status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Api {
  constructor(base = "") {
    this.base = base;
    /** How far the door's clock is ahead, ms. */
    this.ahead = 0;
    this.signer = null;
    /** Requests that the key has left, as the last answer said. */
    this.credits = null;
  }

  /** Compares clocks: signatures are good for 5 s. */
  async setClock() {
    const before = Date.now();
    const told = await this.get("/v1/time");
    this.ahead = told.time_ms - Math.round((before + Date.now()) / 2);
  }

  timestamp() {
    return String(Date.now() + this.ahead);
  }

  get(path) {
    return this.#ask("GET", path, "", {});
  }

  /** Key, timestamp, nonce and signature of a request. */
  async signed(method, path, body = "") {
    const signer = this.signer;
    if (!signer) throw new Refused("missing_header", "Sign in first.");
    const [timestamp, once] = [this.timestamp(), nonce()];
    const signature = await signer.sign(timestamp, once, method, path, body);
    return { key: signer.name, timestamp, nonce: once, signature };
  }

  /** A signed request; `value` becomes its body. */
  async own(method, path, value) {
    const body = value === undefined ? "" : JSON.stringify(value);
    const { key, timestamp, nonce: once, signature } = await this.signed(method, path, body);
    const headers = { "FB-KEY": key, "FB-TIMESTAMP": timestamp, "FB-NONCE": once, "FB-SIGN": signature };
    return this.#ask(method, path, body, headers);
  }

  /**
   * As `own`, of a request that counts once by its client order id: sent again when the answer is lost, the
   * door is busy, or the exchange has not answered in time.
   */
  async once(method, path, value) {
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await this.own(method, path, value);
        if (answer.state !== "pending" || tries >= TRIES) return answer;
      } catch (refused) {
        if (!["no_answer", "busy"].includes(refused.code) || tries >= TRIES) throw refused;
      }
      await pause(RETRY_MS);
    }
  }

  async #ask(method, path, body, headers) {
    let response;
    let told;
    try {
      const signal = AbortSignal.timeout(ANSWER_MS);
      const options = { method, headers: { ...headers }, signal, cache: "no-store" };
      if (body) {
        options.body = body;
        options.headers["Content-Type"] = "application/json";
      }
      response = await fetch(this.base + path, options);
      told = await response.json();
    } catch {
      throw new Refused("no_answer", "No answer from the exchange's door.");
    }
    const left = response.headers.get("FB-CREDITS-LEFT");
    if (left !== null) this.credits = left;
    if (response.ok) return told;
    const { code = "no_answer", message = `Status ${response.status}.` } = told?.error ?? {};
    throw new Refused(code, message, response.status);
  }
}
