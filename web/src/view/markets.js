// The list of markets, and the summary of the selected one in the header.

import { padded, placesOf } from "../model/decimal.js";
import { $, element, keyed, row, setAttribute, setText } from "./dom.js";

/** Markets in the list at a time; the search finds the others. */
const SHOWN_MAX = 100;

export class Markets {
  constructor(app, select) {
    this.app = app;
    this.select = select;
    $("market-find").addEventListener("input", () => app.frames.mark("markets"));
    $("market-find").addEventListener("keydown", (event) => {
      // Of what is typed, whether it is drawn yet or not.
      const first = event.key === "Enter" && this.#found()[0];
      if (first) this.select(first.symbol);
    });
  }

  /** The markets that the search names, all without one. */
  #found() {
    const sought = $("market-find").value.trim().toUpperCase();
    return this.app.instruments.filter((one) => one.symbol.includes(sought));
  }

  render() {
    const { app } = this;
    const found = this.#found();
    const shown = found.slice(0, SHOWN_MAX);
    const make = (one) => {
      const made = row(["", "n", "n", "n", ""]);
      const button = element("button", { type: "button", text: one.symbol, kind: "link" });
      button.addEventListener("click", () => this.select(one.symbol));
      made.cells[0].replaceChildren(button);
      return made;
    };
    const update = (made, one) => {
      const ticker = app.tickers.get(one.symbol);
      const places = placesOf(one.tick);
      const price = (of) => (of ? padded(of, places) : "–");
      setAttribute(made.cells[0].firstElementChild, "aria-current", one.symbol === app.symbol ? "true" : null);
      const texts = [price(ticker?.last), price(ticker?.bid?.[0]), price(ticker?.ask?.[0]), app.states.get(one.symbol) ?? "–"];
      texts.forEach((text, at) => setText(made.cells[at + 1], text));
    };
    keyed($("market-rows"), shown, (one) => one.symbol, make, update, $("market-find"));
    const more = $("market-more");
    more.hidden = found.length > 0 && found.length === shown.length;
    setText(more, found.length ? `${found.length - shown.length} more: type some of the symbol.` : "No market of that name.");
  }

  renderSummary() {
    const { app } = this;
    const ticker = app.tickers.get(app.symbol);
    const places = app.instrument ? placesOf(app.instrument.tick) : 2;
    const price = (of) => (of ? padded(of, places) : "–");
    setText($("sum-symbol"), app.symbol ?? "–");
    setText($("sum-last"), price(ticker?.last));
    setText($("sum-bid"), price(ticker?.bid?.[0]));
    setText($("sum-ask"), price(ticker?.ask?.[0]));
    setText($("sum-volume"), ticker?.volume ?? "–");
    const state = app.states.get(app.symbol) ?? "unknown";
    setText($("sum-state"), state);
    setAttribute($("sum-state"), "data-state", state);
  }
}
