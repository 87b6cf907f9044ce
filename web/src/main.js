// The page: messages of the door change models at once; views are written from them once a frame.

import { Api } from "./door/api.js";
import { Socket } from "./door/socket.js";
import { AccountModel } from "./model/account.js";
import { Book } from "./model/book.js";
import { padded, placesOf } from "./model/decimal.js";
import { Trades, timeOfDay } from "./model/trades.js";
import { Announcer } from "./view/announce.js";
import { Blotter } from "./view/blotter.js";
import { Chart } from "./view/chart.js";
import { $, Frames, setAttribute, setText } from "./view/dom.js";
import { Ladder, Tape } from "./view/ladder.js";
import { Markets } from "./view/markets.js";
import { Operator } from "./view/operator.js";
import { Session } from "./view/session.js";
import { Shortcuts, Theme } from "./view/shortcuts.js";
import { Ticket } from "./view/ticket.js";
import { Venue } from "./view/venue.js";

/** Channels of the selected market, and of every one. */
const SELECTED = ["book", "trades"];
const EVERY = ["ticker", "status"];
/** First wait before a snapshot is asked for again; doubles while it goes on failing. */
const RESYNC_MS = 250;
const RESYNC_MAX_MS = 5_000;
/** Between two attempts to get at the instruments, and at a session that is down. */
const RETRY_MS = 2_000;
/** Between two looks at the clock of the door, and at the counters in the foot, ms. */
const CLOCK_MS = 60_000;
const COUNTERS_MS = 1_000;

const app = {
  instruments: [],
  symbol: null,
  instrument: null,
  tickers: new Map(),
  states: new Map(),
  book: new Book(),
  trades: new Trades(),
  account: new AccountModel(),
  api: new Api(),
  announcer: new Announcer(),
  counters: { messages: 0, updates: 0, resyncs: 0, checksums: 0 },
  failures: 0,
  frames: null,
  socket: null,
};

app.frames = new Frames({
  ladder: () => {
    ladder.render(app.book, app.instrument, app.account.levels(app.symbol));
    $("book-note").hidden = app.book.live;
  },
  tape: () => tape.render(app.trades, app.instrument, timeOfDay),
  chart: () => chart.render(app.trades, app.symbol ?? "", timeOfDay, app.instrument ? placesOf(app.instrument.tick) : 2),
  markets: () => markets.render(),
  summary: () => markets.renderSummary(),
  orders: () => blotter.renderOrders(),
  fills: () => blotter.renderFills(),
  positions: () => blotter.renderPositions(),
  session: () => session.render(),
  ticket: () => ticket.render(),
  venue: () => venue.render(),
  operator: () => operator.render(),
});

const everything = () => app.frames.mark(...Object.keys(app.frames.views));
const ticket = new Ticket(app);
const operator = new Operator(app);
const session = new Session(app, operator);
const venue = new Venue(app);
const blotter = new Blotter(app, ticket);
const markets = new Markets(app, select);
const ladder = new Ladder((price) => ticket.pick(price));
const tape = new Tape();
const chart = new Chart(() => app.frames.mark("chart"));

function select(symbol) {
  if (symbol === app.symbol) return;
  if (app.symbol) app.socket.unsubscribe(SELECTED, [app.symbol]);
  app.symbol = symbol;
  app.instrument = app.instruments.find((one) => one.symbol === symbol) ?? null;
  app.book.clear();
  app.trades.clear();
  app.failures = 0;
  if (ticket.replaced) ticket.leave();
  app.socket.subscribe(SELECTED, [symbol]);
  everything();
}

/** Asks for the book anew, not faster than it can come. */
function resync(why) {
  app.counters.resyncs += 1;
  const wait = Math.min(RESYNC_MAX_MS, RESYNC_MS * 2 ** app.failures);
  app.failures += 1;
  const { symbol } = app;
  setText($("book-note"), `The book is fetched again (${why}).`);
  setTimeout(() => symbol === app.symbol && !app.book.live && app.socket.resync("book", symbol), wait);
}

function takeBook(message) {
  const took = app.book.take(message);
  if (took === "ok") {
    app.counters.updates += 1;
    app.counters.checksums += 1;
    if (message.type !== "snapshot") app.failures = 0;
  } else if (took !== "old" && took !== "waiting") {
    resync(took);
  }
  app.frames.mark("ladder");
}

const FILLED = { buy: "Bought", sell: "Sold" };

function take(message) {
  app.counters.messages += 1;
  const symbol = message.symbol ?? message.ticker?.symbol;
  switch (message.channel) {
    case "book":
      if (symbol === app.symbol) takeBook(message);
      break;
    case "trades":
      if (symbol !== app.symbol) break;
      app.trades.take(message);
      app.frames.mark("tape");
      chart.soon();
      break;
    case "ticker":
      if (!message.ticker) break;
      app.tickers.set(symbol, message.ticker);
      app.frames.mark("markets");
      if (symbol === app.symbol) app.frames.mark("summary");
      break;
    case "status":
      if (app.states.has(symbol) && app.states.get(symbol) !== message.status && symbol === app.symbol) {
        app.announcer.say(`${symbol} is now ${message.status}.`);
      }
      app.states.set(symbol, message.status);
      app.frames.mark("markets", "summary");
      break;
    case "orders":
      for (const order of app.account.takeOrders(message)) {
        if (["cancelled", "rejected"].includes(order.state)) {
          app.announcer.say(`Order ${order.client_order_id} ${order.state}${order.reason ? `: ${order.reason}` : ""}.`);
        }
      }
      app.frames.mark("orders", "ladder");
      break;
    case "fills":
      for (const fill of app.account.takeFills(message)) {
        app.announcer.say(`${FILLED[fill.side]} ${fill.qty} ${fill.symbol} at ${padded(fill.price, 0)}.`);
      }
      session.positionsSoon();
      app.frames.mark("fills");
      break;
    case "heartbeat":
      session.keepAlive();
      break;
    case "resync_required":
      app.counters.resyncs += 1;
      break;
    default:
  }
}

const LINKS = { connecting: "Connecting", live: "Live", down: "Not connected" };
let wasLive = false;

app.socket = new Socket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/ws`, {
  message: take,
  state: (state) => {
    setText($("link"), LINKS[state]);
    setAttribute($("link"), "data-state", state);
    if (state === "down") {
      app.book.clear();
      setText($("book-note"), "Not connected: the book is fetched again when it is.");
      app.frames.mark("ladder");
      if (wasLive) app.announcer.say("The connection is gone; trying again.");
    }
    if (state === "live") {
      if (wasLive) app.announcer.say("Connected again.");
      wasLive = true;
      app.api.setClock().catch(() => {});
    }
  },
  auth: () => (app.api.signer ? app.api.signed("GET", "/v1/ws") : null),
  trouble: (refused) => {
    if (refused?.code === "session_down") setTimeout(() => app.api.signer && app.socket.authenticate().catch(() => {}), RETRY_MS);
    if (refused?.code) app.announcer.say(`${refused.message} (${refused.code})`);
  },
});

new Shortcuts(
  {
    b: ["Buy: to the quantity", () => ticket.begin("buy")],
    s: ["Sell: to the quantity", () => ticket.begin("sell")],
    m: ["Find a market", () => $("market-find").focus()],
    k: ["To the book's prices; arrows move, Enter takes one", () => ladder.focus()],
    o: ["To the open orders", () => $("orders-title").focus()],
    x: ["Cancel all orders (asks first)", () => blotter.askCancelAll()],
    l: ["Say the best prices", sayPrices],
    t: ["Theme: system, dark, light", () => theme.next()],
    "?": ["This list", () => $("shortcuts").showModal()],
    Escape: ["Leave a replacement", () => {}],
  },
  () => ticket.replaced && ticket.leave(),
);
const theme = new Theme(() => app.frames.mark("chart"));
$("closed").addEventListener("toggle", () => app.frames.mark("orders"));

function sayPrices() {
  const { bid, ask } = app.book.best();
  const side = (name, level) => (level ? `${name} ${level.qty} at ${padded(level.price, 0)}` : `no ${name}`);
  const last = app.tickers.get(app.symbol)?.last;
  app.announcer.say(`${app.symbol ?? ""}: ${side("bid", bid)}, ${side("ask", ask)}${last ? `, last ${padded(last, 0)}` : ""}.`);
}

/** The counters in the foot, and the title, once a second. */
let before = 0;
setInterval(() => {
  const { messages, updates, resyncs, checksums } = app.counters;
  const rate = messages - before;
  before = messages;
  const seq = app.book.live ? `book at ${app.book.seq}` : "no book";
  setText($("feed"), `${rate} messages/s, ${seq}, ${checksums} checksums right, fetched again ${resyncs} times.`);
  Object.assign($("feed").dataset, { messages, updates, resyncs, frames: app.frames.count, longest: Math.ceil(app.frames.longest) });
  const last = app.tickers.get(app.symbol)?.last;
  const price = last && app.instrument ? `${padded(last, placesOf(app.instrument.tick))} ` : "";
  document.title = app.symbol ? `${app.symbol} ${price}· Fairbell` : "Fairbell";
}, COUNTERS_MS);
setInterval(() => app.api.setClock().catch(() => {}), CLOCK_MS);

async function begin() {
  everything();
  try {
    app.instruments = (await app.api.get("/v1/instruments")).instruments ?? [];
  } catch (refused) {
    setText($("book-note"), refused.message);
    setTimeout(begin, RETRY_MS);
    return;
  }
  app.socket.subscribe(EVERY, app.instruments.map((one) => one.symbol));
  if (app.instruments.length) select(app.instruments[0].symbol);
  app.socket.connect();
}

begin();
