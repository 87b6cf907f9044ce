// Prices of the last trades over time, with their volume below, on a canvas. Numbers here are for drawing alone.

import { $, setAttribute } from "./dom.js";

/** Space for the scale on the right, below and above, CSS pixels. */
const [RIGHT, BELOW, ABOVE] = [64, 18, 8];
/** Part of the height that volume takes. */
const VOLUME = 0.2;
/** Columns that volume is added up in. */
const COLUMNS = 90;
/** Between two drawings for new trades, ms. */
const EVERY_MS = 200;
/** Between two changes of the text that stands for the picture, ms. */
const TOLD_MS = 5_000;

/** About `count` round values between two. */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((of) => of * power).find((of) => of >= rough);
  const first = Math.ceil(low / step);
  const last = Math.floor(high / step);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => (first + at) * step);
}

export class Chart {
  /** `asked()` is called when the picture has to be drawn whatever the trades. */
  constructor(asked) {
    this.canvas = $("chart-canvas");
    this.asked = asked;
    this.due = null;
    this.told = 0;
    new ResizeObserver(asked).observe(this.canvas);
  }

  /** There are new trades: draws soon, once for many of them. */
  soon() {
    this.due ??= setTimeout(() => {
      this.due = null;
      this.asked();
    }, EVERY_MS);
  }

  render(trades, symbol, timeOfDay, places) {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const draw = canvas.getContext("2d");
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, width, height);
    const colours = {};
    const colour = (id) => (colours[id] ??= getComputedStyle($(id)).color);
    draw.font = "12px system-ui, sans-serif";
    draw.textBaseline = "middle";
    const good = trades.all.filter((trade) => !trade.broken).reverse();
    const points = good.map((trade) => (trade.point ??= {
      at: Number(BigInt(trade.time_ns) / 1_000n),
      price: Number(trade.price),
      qty: Number(trade.qty),
      side: trade.aggressor,
    }));
    this.#tell(good, symbol, timeOfDay);
    if (points.length < 2) {
      draw.fillStyle = colour("key-grid");
      draw.fillText(points.length ? `One trade at ${good[0].price}` : "No trades yet", 12, height / 2);
      return;
    }
    const [from, to] = [points[0].at, Math.max(points.at(-1).at, points[0].at + 1)];
    let low = points.reduce((least, point) => Math.min(least, point.price), Infinity);
    let high = points.reduce((most, point) => Math.max(most, point.price), -Infinity);
    const margin = (high - low) * 0.06 || high * 0.001 || 1;
    low -= margin;
    high += margin;
    const bottom = height - BELOW;
    const ground = bottom - (bottom - ABOVE) * VOLUME;
    const x = (at) => ((at - from) / (to - from)) * (width - RIGHT);
    const y = (price) => ground - 6 - ((price - low) / (high - low)) * (ground - 6 - ABOVE);
    this.#scale({ draw, colour, width, height, bottom, x, y, low, high, from, to, places, timeOfDay, last: points.at(-1).price });
    this.#volume({ draw, colour, points, x, width: width - RIGHT, ground, bottom });
    draw.strokeStyle = colour("key-line");
    draw.lineWidth = 1.5;
    draw.beginPath();
    points.forEach((point, at) => {
      if (at) draw.lineTo(x(point.at), y(points[at - 1].price));
      draw.lineTo(x(point.at), y(point.price));
    });
    draw.stroke();
    const last = points.at(-1);
    draw.fillStyle = colour("key-line");
    draw.fillRect(width - RIGHT + 2, y(last.price) - 9, RIGHT - 2, 18);
    draw.fillStyle = getComputedStyle(canvas).backgroundColor;
    draw.fillText(last.price.toFixed(places), width - RIGHT + 6, y(last.price));
  }

  #scale({ draw, colour, width, bottom, height, x, y, low, high, from, to, places, timeOfDay, last }) {
    draw.fillStyle = colour("key-grid");
    draw.strokeStyle = getComputedStyle(this.canvas).borderTopColor;
    draw.lineWidth = 1;
    for (const price of ticks(low, high, Math.max(2, height / 60))) {
      const at = Math.round(y(price)) + 0.5;
      draw.beginPath();
      draw.moveTo(0, at);
      draw.lineTo(width - RIGHT, at);
      draw.stroke();
      // The last price stands in a box of its own.
      if (Math.abs(at - y(last)) > 16) draw.fillText(price.toFixed(places), width - RIGHT + 6, at);
    }
    const labels = Math.max(1, Math.floor((width - RIGHT) / 130));
    for (let label = 0; label < labels; label += 1) {
      const at = from + ((to - from) * label) / labels;
      draw.fillText(timeOfDay(String(BigInt(Math.round(at)) * 1_000n)).slice(0, 8), x(at) + 2, bottom + BELOW / 2 + 1);
    }
  }

  #volume({ draw, colour, points, x, width, ground, bottom }) {
    const columns = Array.from({ length: COLUMNS }, () => ({ buy: 0, sell: 0 }));
    for (const point of points) {
      const at = Math.min(COLUMNS - 1, Math.floor((x(point.at) / width) * COLUMNS));
      columns[at][point.side === "sell" ? "sell" : "buy"] += point.qty;
    }
    const most = columns.reduce((of, column) => Math.max(of, column.buy + column.sell), 0) || 1;
    const step = width / COLUMNS;
    columns.forEach((column, at) => {
      let from = bottom;
      for (const side of ["buy", "sell"]) {
        const high = (column[side] / most) * (bottom - ground);
        draw.fillStyle = colour(`key-${side}`);
        draw.fillRect(at * step + 0.5, from - high, Math.max(1, step - 1), high);
        from -= high;
      }
    });
  }

  #tell(good, symbol, timeOfDay) {
    const now = performance.now();
    if (this.told && now - this.told < TOLD_MS && this.symbol === symbol) return;
    this.told = now;
    this.symbol = symbol;
    const last = good.at(-1);
    const what = last
      ? `${good.length} trades of ${symbol} since ${timeOfDay(good[0].time_ns).slice(0, 8)}, from ${good[0].price} to ${last.price}; the table of trades has them`
      : "no trades yet";
    setAttribute(this.canvas, "aria-label", `Price chart: ${what}`);
  }
}
