import assert from "node:assert/strict";
import { test } from "node:test";

import { duration, layout, names, share } from "../src/model/venue.js";

test("durations and shares are written for people", () => {
  assert.deepEqual([0, 950, 81_234, 812_345, 1_240_000, 250_000_000, null].map(duration), ["0.0 µs", "0.9 µs", "81.2 µs", "812 µs", "1.2 ms", "250 ms", "–"]);
  assert.deepEqual([1, 0.99999, 0.5, 0, null, undefined].map(share), ["100.00 %", "99.99 %", "50.00 %", "0.00 %", "–", "–"]);
});

test("a tree of any shape has its children below their parents", () => {
  const nodes = [{ node: 0, kind: "root", layer: 0, parent: null }];
  for (const proxy of [1, 2, 3]) nodes.push({ node: proxy, kind: "proxy", layer: 1, parent: 0 });
  // Told in another order than they stand.
  for (const [node, parent] of [[9, 1], [4, 3], [6, 2], [7, 1], [5, 3], [8, 2]]) nodes.push({ node, kind: "receiver", layer: 2, parent });
  const { places, links, widest, depth } = layout(nodes);
  assert.deepEqual([widest, depth, links.length], [6, 2, 9]);
  const order = [...places].filter(([node]) => node > 3).sort((a, b) => a[1].x - b[1].x).map(([node]) => node);
  assert.deepEqual(order, [7, 9, 6, 8, 4, 5]);
  for (const { x, y } of places.values()) assert.ok(x > 0 && x < 1 && y >= 0 && y <= 1);
  assert.deepEqual([0, 2, 7].map((node) => names(nodes).get(node)), ["root", "P2", "R4"]);
});

test("a tree without proxies, and one whose parents are not told", () => {
  const { links, places } = layout([{ node: 0, kind: "root", layer: 0, parent: null }, { node: 1, kind: "receiver", layer: 1, parent: 7 }]);
  assert.deepEqual([links, places.size], [[], 2]);
  assert.deepEqual([layout([]).widest, layout([]).places.size], [1, 0]);
});
