// The exchange's own figures: how fair deliveries are, and the tree that they come by with its delays.

import { duration, layout, names, share } from "../model/venue.js";
import { $, keyed, row, setAttribute, setText, write } from "./dom.js";

/** Between two looks, ms; and after one that failed. */
const LOOK_MS = 1_000;
const FAILED_MS = 5_000;
/** Units of the picture: a layer's height, a node's width, and its radius. */
const LAYER = 64;
const WIDTH = 56;
const RADIUS = 11;
/** Nodes of a layer that are still named in the picture; the table names all. */
const NAMED_MAX = 12;
const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

export class Venue {
  constructor(app) {
    this.app = app;
    this.fairness = null;
    this.tree = null;
    /** What the picture was drawn of: it is drawn anew when the tree is another one. */
    this.drawn = "";
    this.labels = new Map();
    this.#look();
  }

  async #look() {
    let wait = LOOK_MS;
    if (document.visibilityState === "visible") {
      try {
        const [fairness, tree] = await Promise.all([this.app.api.get("/v1/fairness"), this.app.api.get("/v1/tree")]);
        [this.fairness, this.tree] = [fairness.venue, tree];
      } catch (refused) {
        wait = refused.code === "busy" ? LOOK_MS : FAILED_MS;
        this.fairness = null;
        this.tree = null;
      }
      this.app.frames.mark("venue");
    }
    setTimeout(() => this.#look(), wait);
  }

  render() {
    const told = this.fairness !== null && this.tree !== null;
    $("fairness-none").hidden = told;
    $("fairness-told").hidden = !told;
    $("tree-told").hidden = !told;
    $("tree-none").hidden = told;
    if (!told) return;
    this.#renderFairness();
    this.#renderTree();
  }

  #renderFairness() {
    const { last_second: second, total, window_ns: window, clock_bound_ns: bound } = this.fairness;
    const rows = [
      ["Latency, median", "oml_release_ns", "p50"],
      ["Latency, 99 %", "oml_release_ns", "p99"],
      ["Window, median", "delivery_window_ns", "p50"],
      ["Window, 99 %", "delivery_window_ns", "p99"],
    ];
    const told = (of, field, quantile) => duration(of[field]?.[quantile]);
    keyed($("fairness-rows"), rows, ([name]) => name, () => row(["", "n", "n"]), (made, [name, ...which]) => write(made, [name, told(second, ...which), told(total, ...which)]));
    setText($("fair-on-time"), share(total.on_time_share));
    setText($("fair-together"), share(total.fair_share));
    setText($("fair-messages"), String(total.messages));
    setText($("fair-window"), duration(window));
    setText($("fair-clock"), bound ? duration(bound) : "one clock");
    const named = names(this.tree.nodes);
    keyed($("receiver-rows"), this.fairness.receivers, (one) => String(one.node), () => row(["", "n", "n", "n", ""]), (made, one) => {
      const late = one.late_by_arrival + one.late_by_predecessor;
      write(made, [named.get(one.node) ?? `node ${one.node}`, duration(one.arrival_ns?.p50), duration(one.release_ns?.p50), String(late), one.alive ? "there" : "gone"]);
    });
  }

  #renderTree() {
    const { nodes, epoch, hedge } = this.tree;
    const named = names(nodes);
    const key = JSON.stringify([epoch, nodes.map((one) => [one.node, one.parent])]);
    if (key !== this.drawn) this.#draw(nodes, named);
    this.drawn = key;
    const dead = nodes.filter((one) => !one.alive).map((one) => named.get(one.node));
    for (const one of nodes) {
      const label = this.labels.get(one.node);
      setAttribute(label.dot, "class", `dot ${one.kind}${one.alive ? "" : " dead"}`);
      if (label.delay) setText(label.delay, one.alive ? (one.delay_ns === null ? "" : duration(one.delay_ns)) : "gone");
    }
    const count = (kind, one, many) => {
      const found = nodes.filter((of) => of.kind === kind).length;
      return `${found} ${found === 1 ? one : many}`;
    };
    const parents = hedge ? `${hedge + 1} parents` : "one parent";
    const line = `Epoch ${epoch}: ${count("proxy", "proxy", "proxies")}, ${count("receiver", "receiver", "receivers")}, each hears of ${parents} at most. ${dead.length ? `Gone: ${dead.join(", ")}.` : "All answer."}`;
    setText($("tree-line"), line);
    setAttribute($("tree-picture"), "aria-label", `Tree of the overlay. ${line}`);
    keyed($("tree-rows"), nodes, (one) => String(one.node), () => row(["", "", "n", "n", "n", "n", ""]), (made, one) => {
      const { received, duplicates, missing } = one.copies;
      const texts = [named.get(one.node), named.get(one.parent) ?? "–", duration(one.delay_ns), String(received), String(duplicates), String(missing), one.alive ? "there" : "gone"];
      write(made, texts);
    });
  }

  #draw(nodes, named) {
    const { places, links, widest, depth } = layout(nodes);
    const [width, height] = [widest * WIDTH, depth * LAYER + 2 * LAYER];
    const at = (node) => ({ x: places.get(node).x * width, y: places.get(node).y * depth * LAYER + LAYER / 2 });
    const picture = $("tree-picture");
    picture.setAttribute("viewBox", `0 0 ${width} ${height - LAYER / 2}`);
    picture.replaceChildren();
    this.labels.clear();
    for (const [upper, lower] of links) {
      const [from, to] = [at(upper), at(lower)];
      picture.append(shape("line", { class: "link", x1: from.x, y1: from.y, x2: to.x, y2: to.y }));
    }
    for (const one of nodes) {
      const { x, y } = at(one.node);
      const dot = shape("circle", { cx: x, cy: y, r: RADIUS });
      picture.append(dot);
      const label = { dot, delay: null };
      if (widest <= NAMED_MAX) {
        picture.append(shape("text", { class: "name", x, y: y + 3.5 }, named.get(one.node)));
        // Beside a node that has children, whose links go down.
        const leaf = one.layer === depth;
        const place = leaf ? { class: "delay", x, y: y + RADIUS + 12 } : { class: "delay beside", x: x + RADIUS + 4, y: y + 4 };
        label.delay = shape("text", place);
        picture.append(label.delay);
      }
      this.labels.set(one.node, label);
    }
  }
}
