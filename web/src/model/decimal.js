// Decimals as the door writes them: texts like "101.25", never floats. Computed with as BigInt, scaled by
// 10^places.

/** Longest text that is taken for a decimal. */
export const DIGITS_MAX = 24;

/**
 * A text without exponent, times 10^places, as BigInt; null: it is none, or has more places than that.
 * A sign is taken only where `signed` says so.
 */
export function scaled(text, places, signed = false) {
  if (typeof text !== "string" || text.length > DIGITS_MAX + 1) return null;
  const found = /^(-?)([0-9]+)(?:\.([0-9]+))?$/.exec(text);
  if (!found || (found[1] && !signed)) return null;
  const part = (found[3] ?? "").replace(/0+$/, "");
  if (part.length > places) return null;
  const units = BigInt(found[2] + part.padEnd(places, "0"));
  return found[1] ? -units : units;
}

/** Digits behind the point, zeros at the end not counted: 2 of "0.010". */
export function placesOf(text) {
  const part = text.split(".")[1] ?? "";
  return part.replace(/0+$/, "").length;
}

/** Units as a text, with `least` places or more. */
export function text(units, places, least = 0) {
  const digits = (units < 0n ? -units : units).toString().padStart(places + 1, "0");
  const whole = places ? digits.slice(0, -places) : digits;
  let part = places ? digits.slice(-places).replace(/0+$/, "") : "";
  part = part.padEnd(least, "0");
  return (units < 0n ? "-" : "") + whole + (part ? "." + part : "");
}

/** The text with `least` places, or more where it has them without zeros at its end, for columns that line up. */
export function padded(decimal, least) {
  if (!/^-?[0-9]+(\.[0-9]+)?$/.test(decimal)) return decimal;
  const [whole, part = ""] = decimal.split(".");
  const shown = part.replace(/0+$/, "").padEnd(least, "0");
  return shown ? `${whole}.${shown}` : whole;
}

/** A sum that is short enough for a narrow column: from eight digits on in millions, cut to a tenth. */
export function short(decimal) {
  const whole = decimal.split(".")[0];
  return whole.length < 8 ? decimal : `${whole.slice(0, -6)}.${whole.slice(-6, -5)}M`;
}

/** As a checksum counts them: digits without the point and without zeros in front. */
export function digits(decimal) {
  return decimal.replace(".", "").replace(/^0+/, "");
}
