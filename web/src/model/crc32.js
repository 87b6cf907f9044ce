// CRC-32 of IEEE 802.3 (reflected, polynomial 0xEDB88320), as the door's book checksums are.

const TABLE = new Uint32Array(256);
for (let n = 0; n < 256; n += 1) {
  let of = n;
  for (let bit = 0; bit < 8; bit += 1) of = of & 1 ? (of >>> 1) ^ 0xedb88320 : of >>> 1;
  TABLE[n] = of >>> 0;
}

/** Of a text of ASCII, as a number of 32 bits without sign. */
export function crc32(ascii) {
  let of = 0xffffffff;
  for (let at = 0; at < ascii.length; at += 1) of = (of >>> 8) ^ TABLE[(of ^ ascii.charCodeAt(at)) & 0xff];
  return (of ^ 0xffffffff) >>> 0;
}
