// The operators' view, for keys of the scope `operate`: phases, halts, kill switches.

import { $, element, keyed, row, setText } from "./dom.js";

/** Between two looks at the exchange, ms. */
const LOOK_MS = 2_000;

export class Operator {
  constructor(app) {
    this.app = app;
    /** What the exchange said last; null: no operator is signed in. */
    this.status = null;
    /** What the dialog asks about. */
    this.asked = null;
    $("kill").addEventListener("click", () => this.#askKill());
    $("revive").addEventListener("click", () => this.#account("revive"));
    $("operator-confirm").addEventListener("close", () => {
      if ($("operator-confirm").returnValue === "yes" && this.asked) this.#act(this.asked);
      this.asked = null;
    });
    setInterval(() => this.status && document.visibilityState === "visible" && this.look(), LOOK_MS);
  }

  /** Asks how the exchange is. @throws Refused: the key is no operator's */
  async look() {
    const { app } = this;
    const signer = app.api.signer;
    try {
      const told = await app.api.own("GET", "/v1/operator");
      // Somebody else may have signed in meanwhile.
      if (signer === app.api.signer) this.status = told.data;
    } finally {
      app.frames.mark("operator", "session");
    }
  }

  leave() {
    this.status = null;
    this.app.frames.mark("operator");
  }

  async #act(action) {
    const { app } = this;
    const result = $("operator-result");
    try {
      const told = await app.api.own("POST", "/v1/operator", { action });
      const text = `${Object.keys(action)[0]}: ${told.text}.`;
      setText(result, text);
      app.announcer.say(text);
    } catch (refused) {
      setText(result, refused.message);
      app.announcer.say(`Not done: ${refused.message}`);
    }
    await this.look().catch(() => {});
  }

  #account(name) {
    const account = $("kill-account").value.trim();
    if (!account) {
      setText($("operator-result"), "Name an account, or all.");
      $("kill-account").focus();
      return;
    }
    this.#act({ [name]: { account } });
  }

  #ask(action, title, text) {
    this.asked = action;
    setText($("operator-confirm-title"), title);
    setText($("operator-confirm-text"), text);
    $("operator-confirm").returnValue = "no";
    $("operator-confirm").showModal();
  }

  #askKill() {
    const account = $("kill-account").value.trim();
    if (!account) return this.#account("kill");
    const whose = account === "all" ? "every account" : `account ${account}`;
    return this.#ask({ kill: { account } }, "Kill switch?", `All orders of ${whose} are cancelled, and new ones refused until it is revived.`);
  }

  #askHalt(symbol) {
    this.#ask({ halt: { instrument: symbol } }, `Halt ${symbol}?`, `Nothing trades in ${symbol} until it is resumed; orders can be cancelled.`);
  }

  render() {
    const { status } = this;
    $("operator").hidden = status === null;
    if (!status) return;
    const make = (of) => {
      const made = row(["", "", "change"]);
      const halt = element("button", { type: "button", text: "Halt", "aria-label": `Halt ${of.symbol}`, kind: "danger" });
      const resume = element("button", { type: "button", text: "Resume", "aria-label": `Resume ${of.symbol}` });
      halt.addEventListener("click", () => this.#askHalt(of.symbol));
      resume.addEventListener("click", () => this.#act({ resume: { instrument: of.symbol } }));
      made.cells[2].append(halt, " ", resume);
      return made;
    };
    keyed($("phase-rows"), status.instruments ?? [], (of) => of.symbol, make, (made, of) => {
      setText(made.cells[0], of.symbol);
      setText(made.cells[1], of.phase);
      const [halt, resume] = made.cells[2].children;
      halt.hidden = of.phase === "halt";
      resume.hidden = ["continuous", "batch"].includes(of.phase);
    }, $("operator-title"));
    const killed = [...(status.all_killed ? ["all accounts"] : []), ...(status.killed ?? [])];
    setText($("operator-line"), `Day ${status.day_open ? "open" : "closed"}, ${status.open_orders} open orders, input ${status.log?.inputs ?? "–"} of the log. Killed: ${killed.join(", ") || "nobody"}.`);
  }
}
