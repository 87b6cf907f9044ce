import assert from "node:assert/strict";
import test from "node:test";
import { digits, padded, placesOf, scaled, short, text } from "../src/model/decimal.js";
import { Random } from "./random.js";

test("decimals are read exactly, beyond what a float holds", () => {
  assert.equal(scaled("1.5", 8), 150_000_000n);
  assert.equal(scaled("0.1", 1), 1n);
  assert.equal(scaled("7.000", 0), 7n);
  assert.equal(scaled("90071992547409.9301", 4), 900_719_925_474_099_301n);
  assert.notEqual(Number("90071992547409.9301") * 10_000, 900_719_925_474_099_301n);
  assert.equal(scaled("-0.01", 2, true), -1n);
});

test("what is no decimal is none", () => {
  for (const wrong of ["", ".5", "5.", "-1", "+1", "1e3", "1.23", " 1", "1,5", "0x1", "１", "9".repeat(40), null, 1, undefined]) {
    assert.equal(scaled(wrong, 1), null, String(wrong));
  }
});

test("what is written is read again", () => {
  const random = new Random(28);
  for (let n = 0; n < 2_000; n += 1) {
    const [units, places] = [BigInt(random.below(2 ** 31)) * BigInt(1 + random.below(2 ** 20)), random.below(9)];
    const signed = random.below(2) ? units : -units;
    assert.equal(scaled(text(signed, places), places, true), signed, `seed 28, ${n}`);
  }
  assert.equal(text(0n, 2), "0");
  assert.equal(text(1n, 12), "0.000000000001");
  assert.equal(text(5n, 1, 2), "0.50");
});

test("columns line up and digits are those of the checksum", () => {
  assert.deepEqual(["100", "100.5", "100.0500", "-3", "–"].map((of) => padded(of, 2)), ["100.00", "100.50", "100.05", "-3.00", "–"]);
  assert.equal(padded("7.000", 0), "7");
  assert.deepEqual(["100.0500", "0.01", "20", "0"].map(digits), ["1000500", "1", "20", ""]);
  assert.deepEqual(["1234567.5", "12345678", "1097266326"].map(short), ["1234567.5", "12.3M", "1097.2M"]);
  assert.deepEqual(["0.010", "1", "0.25"].map(placesOf), [2, 0, 2]);
});
