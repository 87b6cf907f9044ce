// What the exchange tells of itself: fairness in words, and the tree as places of a picture.

/** A duration of ns for people: µs up to a millisecond, then ms. */
export function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1_000_000) return `${(ns / 1_000).toFixed(ns < 100_000 ? 1 : 0)} µs`;
  return `${(ns / 1_000_000).toFixed(ns < 100_000_000 ? 1 : 0)} ms`;
}

/** A share of 0 to 1 as percent: rounded down, so that 100 % means all. */
export function share(of) {
  if (of === null || of === undefined) return "–";
  return `${(Math.floor(of * 10_000) / 100).toFixed(2)} %`;
}

/** Names of nodes: root, P1, P2, ..., R1, R2, ... in the order of their numbers. */
export function names(nodes) {
  const counts = { proxy: 0, receiver: 0 };
  const named = new Map();
  for (const one of [...nodes].sort((a, b) => a.node - b.node)) {
    if (one.kind === "root") named.set(one.node, "root");
    else named.set(one.node, `${one.kind === "proxy" ? "P" : "R"}${(counts[one.kind] += 1)}`);
  }
  return named;
}

/**
 * Places of a tree's nodes: `x` and `y` from 0 to 1, a layer a row, children below their parents in order; and the
 * links between them. A node whose parent is not told stands without a link.
 */
export function layout(nodes) {
  const depth = Math.max(0, ...nodes.map((one) => one.layer));
  const layers = Array.from({ length: depth + 1 }, () => []);
  for (const one of nodes) layers[one.layer].push(one);
  const places = new Map();
  for (const [layer, row] of layers.entries()) {
    const above = (one) => places.get(one.parent)?.x ?? 0;
    row.sort((a, b) => above(a) - above(b) || a.node - b.node);
    row.forEach((one, place) => places.set(one.node, { x: (place + 0.5) / row.length, y: depth ? layer / depth : 0 }));
  }
  const links = nodes.filter((one) => places.has(one.parent)).map((one) => [one.parent, one.node]);
  return { places, links, widest: Math.max(1, ...layers.map((row) => row.length)), depth };
}
