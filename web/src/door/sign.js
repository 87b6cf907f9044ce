// Signatures of requests, by the browser's own HMAC-SHA256.

const bytes = (text) => new TextEncoder().encode(text);

/**
 * The signer of a key. The secret becomes a CryptoKey that can't be read again; the caller forgets the text.
 */
export async function signer(name, secret) {
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return {
    name,
    /** Hexadecimal HMAC of timestamp + nonce + method + path with query + body. */
    async sign(timestamp, nonce, method, path, body) {
      const tag = await crypto.subtle.sign("HMAC", key, bytes(timestamp + nonce + method + path + body));
      return Array.from(new Uint8Array(tag), (byte) => byte.toString(16).padStart(2, "0")).join("");
    },
  };
}

/** 32 hexadecimal digits of randomness: no two requests of one millisecond have one signature. */
export function nonce() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
