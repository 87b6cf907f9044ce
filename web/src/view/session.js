// Signing in and out, the dead-man's switch, cancelling when the connection ends.

import { signer } from "../door/sign.js";
import { $, setAttribute, setText } from "./dom.js";

/** Between two looks at the positions after fills, ms. */
const POSITIONS_MS = 500;

export class Session {
  constructor(app, operator) {
    this.app = app;
    this.operator = operator;
    /** The key is of an account; an operator's may be of none. */
    this.account = true;
    /** Time of the switch, ms; 0: off. When it was set last. */
    this.deadMan = { ms: 0, set: 0, trouble: "" };
    /** Whether a key is being looked at. */
    this.checking = false;
    $("sign-in").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#signIn();
    });
    $("sign-out").addEventListener("click", () => this.#signOut());
    $("dead-man-switch").addEventListener("click", () => this.#arm(this.deadMan.ms ? 0 : Number($("dead-man-time").value)));
    $("dead-man-time").addEventListener("change", () => this.deadMan.ms && this.#arm(Number($("dead-man-time").value)));
    $("cancel-on-disconnect").addEventListener("change", () => this.#cancelOnDisconnect());
    setInterval(() => this.keepAlive(), 500);
  }

  async #signIn() {
    const { app } = this;
    const result = $("sign-in-result");
    const [name, secret] = [$("key").value.trim(), $("secret").value.trim()];
    setText(result, "");
    if (!name || !secret) {
      setText(result, "Key and secret are both needed.");
      $(name ? "secret" : "key").focus();
      return;
    }
    // Frames may be drawn meanwhile: nobody is signed in before the door has said so.
    this.checking = true;
    try {
      await app.api.setClock();
      const signs = await signer(name, secret);
      // Before anything shows that the page is signed in.
      $("secret").value = "";
      app.api.signer = signs;
      this.account = await this.#roles();
      $("key").value = "";
      if (this.account) await app.socket.authenticate();
    } catch (refused) {
      // The connection is signed in when it is there.
      if (refused.code) {
        app.api.signer = null;
        this.operator.leave();
        setText(result, `${refused.message} (${refused.code})`);
        $("key").focus();
        return;
      }
    } finally {
      this.checking = false;
      app.frames.mark("session", "orders", "fills", "positions", "ticket");
    }
    setText($("signed-key"), name);
    app.announcer.say(`Signed in with key ${name}.`);
    $("account-title").focus();
  }

  /** What the key is good for: looks at both. Whether it is of an account. @throws Refused: it is of neither */
  async #roles() {
    const { app, operator } = this;
    const [own, exchange] = await Promise.allSettled([app.api.own("GET", "/v1/positions"), operator.look()]);
    if (own.status === "fulfilled") {
      app.account.positions = own.value.positions ?? [];
      return true;
    }
    // An operator's key may be of no account.
    if (own.reason.code === "wrong_scope" && exchange.status === "fulfilled") return false;
    throw own.reason;
  }

  #signOut() {
    const { app } = this;
    this.operator.leave();
    const armed = this.deadMan.ms > 0;
    app.api.signer = null;
    app.account.clear();
    this.deadMan = { ms: 0, set: 0, trouble: "" };
    $("cancel-on-disconnect").checked = false;
    app.socket.signOut();
    app.announcer.say(`Signed out.${armed ? " The dead-man's switch was armed: it will cancel all orders." : ""}`);
    app.frames.mark("session", "orders", "fills", "positions", "ticket", "ladder");
    $("account-title").focus();
  }

  /** Sets the switch; 0: off. */
  async #arm(ms) {
    const { app } = this;
    try {
      await app.api.own("POST", "/v1/cancel_after", { timeout_ms: ms });
      this.deadMan = { ms, set: Date.now(), trouble: "" };
      app.announcer.say(ms ? `Dead-man's switch armed: ${ms / 1_000} seconds.` : "Dead-man's switch off.");
    } catch (refused) {
      this.deadMan.trouble = refused.message;
      app.announcer.say(`Dead-man's switch: ${refused.message}`);
    }
    app.frames.mark("session");
  }

  /** Sets the switch again when a third of its time is over; heartbeats call it, too, for hidden pages' timers sleep. */
  async keepAlive() {
    const { deadMan, app } = this;
    if (!deadMan.ms || !app.api.signer || this.asking || Date.now() - deadMan.set < deadMan.ms / 3) return;
    this.asking = true;
    const sent = Date.now();
    try {
      await app.api.own("POST", "/v1/cancel_after", { timeout_ms: deadMan.ms });
      // It may have been set otherwise meanwhile.
      if (this.deadMan === deadMan) Object.assign(deadMan, { set: sent, trouble: "" });
    } catch (refused) {
      if (!deadMan.trouble) app.announcer.say("Dead-man's switch: no answer. All orders may be cancelled.");
      deadMan.trouble = refused.message;
    } finally {
      this.asking = false;
      app.frames.mark("session");
    }
  }

  async #cancelOnDisconnect() {
    const box = $("cancel-on-disconnect");
    try {
      await this.app.socket.setCancelOnDisconnect(box.checked);
      this.app.announcer.say(box.checked ? "All orders are cancelled when this page's connection ends." : "Orders stay when the connection ends.");
    } catch (refused) {
      box.checked = !box.checked;
      this.app.announcer.say(`Not set: ${refused.message}`);
    }
  }

  /** Asks for positions soon, once for many fills. */
  positionsSoon() {
    if (this.soon) return;
    this.soon = setTimeout(async () => {
      this.soon = null;
      try {
        this.app.account.positions = (await this.app.api.own("GET", "/v1/positions")).positions ?? [];
        this.app.frames.mark("positions");
      } catch (refused) {
        this.app.announcer.say(`Positions: ${refused.message}`);
      }
    }, POSITIONS_MS);
  }

  render() {
    const { app, deadMan } = this;
    const signed = app.api.signer !== null && !this.checking;
    $("sign-in").hidden = signed;
    $("signed-in").hidden = !signed;
    $("account-safety").hidden = !this.account;
    setText($("credits"), app.api.credits === null ? "" : `Requests left: ${app.api.credits}.`);
    const button = $("dead-man-switch");
    setAttribute(button, "aria-pressed", String(deadMan.ms > 0));
    setText(button, deadMan.ms ? "Switch it off" : "Arm the switch");
    const state = deadMan.ms ? `Armed: all orders go ${deadMan.ms / 1_000} s after this page is last heard of.` : "Off.";
    setText($("dead-man-state"), deadMan.trouble ? `${state} Last try: ${deadMan.trouble}` : state);
  }
}
