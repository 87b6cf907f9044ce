// The WebSocket: subscriptions that survive reconnects, and asking for a snapshot again.
//
// Answers to what is asked come in the order asked, "ok" or "error". A connection that is silent for three
// heartbeats is given up. Between attempts to connect it waits longer each time, up to MAX_MS, and a random part of that.

const SILENT_MS = 15_000;
const FIRST_MS = 250;
const MAX_MS = 8_000;
/** Symbols in one subscription: a message may have 64 KiB. */
const SYMBOLS_MAX = 500;

/** Waiting time before the attempt after `failures` in a row; `random` of 0 to 1. */
export function backoff(failures, random) {
  const most = Math.min(MAX_MS, FIRST_MS * 2 ** failures);
  return most / 2 + (most / 2) * random;
}

export class Socket {
  /**
   * `on.message(message)` hears everything of channels; `on.state("connecting" | "live" | "down")`;
   * `on.auth()` makes the fields of an auth message, or null where nobody is signed in.
   */
  constructor(url, on, make = (address) => new WebSocket(address)) {
    this.url = url;
    this.on = on;
    this.make = make;
    this.failures = 0;
    this.socket = null;
    /** "channel symbol" of public subscriptions. */
    this.public = new Set();
    this.cancelOnDisconnect = false;
    this.waiting = [];
    this.heard = 0;
    this.state = "down";
    this.timer = setInterval(() => this.#watch(), 1_000);
  }

  connect() {
    clearTimeout(this.retry);
    this.#say("connecting");
    let socket;
    try {
      socket = this.make(this.url);
    } catch {
      this.#again();
      return;
    }
    this.socket = socket;
    this.heard = Date.now();
    socket.onopen = () => this.#begin(socket);
    socket.onmessage = (event) => {
      if (socket === this.socket) this.#take(event.data);
    };
    socket.onclose = () => {
      if (socket === this.socket) this.#again();
    };
  }

  /** Gives the connection up and opens another one. */
  restart() {
    const socket = this.socket;
    this.#again();
    socket?.close();
  }

  #again() {
    this.socket = null;
    for (const { refuse } of this.waiting.splice(0)) refuse(new Error("the connection is gone"));
    this.#say("down");
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.connect(), backoff(this.failures, Math.random()));
    this.failures += 1;
  }

  #watch() {
    if (this.socket && Date.now() - this.heard > SILENT_MS) this.restart();
  }

  #say(state) {
    if (state === this.state) return;
    this.state = state;
    this.on.state(state);
  }

  async #begin(socket) {
    try {
      const subscribed = this.#subscribe([...this.public]);
      const own = this.authenticate();
      await subscribed;
      this.failures = 0;
      if (socket === this.socket) this.#say("live");
      await own;
    } catch (refused) {
      // A refusal of one part leaves the others; a lost connection is opened again elsewhere.
      this.on.trouble?.(refused);
    }
  }

  #take(text) {
    this.heard = Date.now();
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      this.restart();
      return;
    }
    switch (message?.channel) {
      case "ok":
        this.waiting.shift()?.done(message);
        break;
      case "error": {
        const { code = "", message: why = "" } = message.error ?? {};
        const refused = Object.assign(new Error(why), { code });
        const asked = this.waiting.shift();
        if (asked) asked.refuse(refused);
        else this.on.trouble?.(refused);
        break;
      }
      default:
        this.on.message(message ?? {});
    }
  }

  /** Sends an operation; done when the door says so. */
  ask(operation) {
    const socket = this.socket;
    if (!socket || socket.readyState !== 1) return Promise.reject(new Error("not connected"));
    return new Promise((done, refuse) => {
      this.waiting.push({ done, refuse });
      socket.send(JSON.stringify(operation));
    });
  }

  /** Signs this connection in, if somebody is, and subscribes to what is private. */
  async authenticate() {
    const auth = await this.on.auth();
    if (!auth) return;
    await this.ask({ op: "auth", ...auth });
    await this.ask({ op: "subscribe", channels: ["orders", "fills"] });
    if (this.cancelOnDisconnect) await this.setCancelOnDisconnect(true);
  }

  async setCancelOnDisconnect(enabled) {
    await this.ask({ op: "cancel_on_disconnect", enabled });
    this.cancelOnDisconnect = enabled;
  }

  #operations(op, wanted) {
    const by = new Map();
    for (const topic of wanted) {
      const [channel, symbol] = topic.split(" ");
      if (!by.has(channel)) by.set(channel, []);
      by.get(channel).push(symbol);
    }
    const asked = [];
    for (const [channel, symbols] of by) {
      for (let at = 0; at < symbols.length; at += SYMBOLS_MAX) {
        asked.push(this.ask({ op, channels: [channel], symbols: symbols.slice(at, at + SYMBOLS_MAX) }));
      }
    }
    return Promise.all(asked);
  }

  #subscribe(wanted) {
    return this.#operations("subscribe", wanted);
  }

  /** Subscribes to channels of symbols from now on, whatever connection there is. */
  subscribe(channels, symbols) {
    const wanted = channels.flatMap((channel) => symbols.map((symbol) => `${channel} ${symbol}`));
    wanted.forEach((topic) => this.public.add(topic));
    // Without a connection the next one asks.
    return this.socket?.readyState === 1 ? this.#subscribe(wanted).catch(this.on.trouble) : Promise.resolve();
  }

  unsubscribe(channels, symbols) {
    const gone = channels.flatMap((channel) => symbols.map((symbol) => `${channel} ${symbol}`));
    gone.forEach((topic) => this.public.delete(topic));
    return this.socket?.readyState === 1 ? this.#operations("unsubscribe", gone).catch(this.on.trouble) : Promise.resolve();
  }

  /** A new snapshot of a channel: subscribing again makes the door tell one. */
  resync(channel, symbol) {
    return this.subscribe([channel], [symbol]);
  }

  /** Forgets the signed-in account: a new connection without it. */
  signOut() {
    this.cancelOnDisconnect = false;
    this.restart();
  }
}
