import assert from "node:assert/strict";
import test from "node:test";
import zlib from "node:zlib";
import { Book } from "../src/model/book.js";
import { crc32 } from "../src/model/crc32.js";
import { Random } from "./random.js";

/** A second opinion: levels in plain maps, sorted when asked, the checksum as docs/web.md says it, by zlib. */
class Truth {
  constructor() {
    this.sides = [new Map(), new Map()];
    this.seq = 0;
  }

  /** [price text, lots] from the best; prices of two places in cents. */
  levels(side) {
    const sorted = [...this.sides[side]].sort(([a], [b]) => (side ? a - b : b - a));
    return sorted.map(([cents, lots]) => [`${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, "0")}00`, String(lots)]);
  }

  checksum() {
    const top = [...this.levels(1).slice(0, 10), ...this.levels(0).slice(0, 10)];
    const text = top.flat().map((of) => of.replaceAll(".", "").replace(/^0*/, "")).join("");
    return zlib.crc32 ? zlib.crc32(text) : slowCrc(text);
  }

  snapshot() {
    return { type: "snapshot", seq: this.seq, bids: this.levels(0), asks: this.levels(1), checksum: this.checksum() };
  }

  /** Changes some levels, and tells of them. */
  step(random) {
    const before = [this.levels(0), this.levels(1)];
    for (let n = 1 + random.below(4); n > 0; n -= 1) {
      const side = random.below(2);
      const cents = side ? 10_000 + random.below(40) : 9_960 + random.below(40);
      if (random.below(3)) this.sides[side].set(cents, 1 + random.below(900));
      else this.sides[side].delete(cents);
    }
    const changes = [0, 1].map((side) => {
      const [was, is] = [new Map(before[side]), new Map(this.levels(side))];
      const changed = [...is].filter(([price, qty]) => was.get(price) !== qty);
      return changed.concat([...was].filter(([price]) => !is.has(price)).map(([price]) => [price, "0"]));
    });
    const prev = this.seq;
    this.seq += 1 + random.below(5);
    return { type: "update", prev_seq: prev, seq: this.seq, bids: changes[0], asks: changes[1], checksum: this.checksum() };
  }
}

/** Bit by bit, for versions of node whose zlib has none. */
function slowCrc(text) {
  let of = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    of ^= byte;
    for (let bit = 0; bit < 8; bit += 1) of = of & 1 ? (of >>> 1) ^ 0xedb88320 : of >>> 1;
  }
  return ~of >>> 0;
}

const shown = (book) => [book.bids, book.asks].map((side) => side.levels.map(({ price, qty }) => [price, qty]));

test("CRC-32 has its check value", () => {
  assert.equal(crc32("123456789"), 0xcbf43926);
  assert.equal(crc32(""), 0);
  assert.equal(crc32("100110005002999900" + "5"), slowCrc("1001100050029999005"));
});

test("a book is the same after every update, and its checksum right", () => {
  const [random, truth, book] = [new Random(281), new Truth(), new Book()];
  assert.equal(book.take({ type: "update", prev_seq: 0, seq: 1, bids: [], asks: [], checksum: 0 }), "waiting");
  assert.equal(book.take(truth.snapshot()), "ok");
  for (let n = 0; n < 3_000; n += 1) {
    assert.equal(book.take(truth.step(random)), "ok", `seed 281, update ${n}`);
    if (n % 10 === 0) assert.deepEqual(shown(book), [truth.levels(0), truth.levels(1)], `seed 281, update ${n}`);
  }
});

test("updates that a snapshot has already are passed over, a gap is found, a snapshot mends it", () => {
  const [random, truth, book] = [new Random(282), new Truth(), new Book()];
  const first = [truth.step(random), truth.step(random)];
  book.take(truth.snapshot());
  assert.deepEqual(first.map((update) => book.take(update)), ["old", "old"]);
  truth.step(random);
  assert.equal(book.take(truth.step(random)), "gap");
  assert.equal(book.live, false);
  assert.equal(book.take(truth.step(random)), "waiting", "nothing is built upon a gap");
  assert.equal(book.take(truth.snapshot()), "ok");
  assert.deepEqual(shown(book), [truth.levels(0), truth.levels(1)]);
});

test("any change of a level among the first ten is found by the checksum", () => {
  for (let n = 0; n < 200; n += 1) {
    const [random, truth, book] = [new Random(1_000 + n), new Truth(), new Book()];
    for (let step = 0; step < 30; step += 1) truth.step(random);
    book.take(truth.snapshot());
    const update = truth.step(random);
    const side = random.below(2) ? "asks" : "bids";
    const levels = truth.levels(side === "asks" ? 1 : 0);
    if (!levels.length) continue;
    const [price, qty] = levels[random.below(Math.min(10, levels.length))];
    update[side] = update[side].filter(([of]) => of !== price).concat([[price, String(Number(qty) + 1)]]);
    assert.equal(book.take(update), "checksum", `seed ${1_000 + n}`);
    assert.equal(book.live, false);
  }
});

test("whatever comes instead of a message leaves no half book", () => {
  const truth = new Truth();
  const random = new Random(283);
  for (let step = 0; step < 20; step += 1) truth.step(random);
  const wrong = [{}, { seq: 1 }, { seq: "1", bids: [], asks: [] }, { seq: 1.5, bids: [], asks: [] },
    { type: "snapshot", seq: 1, bids: [["1"]], asks: [] }, { type: "snapshot", seq: 1, bids: [null], asks: [] },
    { type: "snapshot", seq: 1, bids: [["-1", "1"]], asks: [] }, { type: "snapshot", seq: 1, bids: [[1, 2]], asks: [] },
    { type: "snapshot", seq: 1, bids: [["1", "1e5"]], asks: [], checksum: 0 }];
  for (const message of wrong) {
    const book = new Book();
    book.take(truth.snapshot());
    assert.equal(book.take(message), "malformed", JSON.stringify(message));
    assert.deepEqual([book.live, shown(book)], [false, [[], []]]);
  }
});
