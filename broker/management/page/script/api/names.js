/**
 * Percent-encoded names in paths. A name may have bytes that are not UTF-8: the API shows each of them as a lone surrogate
 * from U+DC80 to U+DCFF, and accepts that for the byte.
 */

const FIRST = 0xdc80;
const LAST = 0xdcff;
const OFFSET = 0xdc00;

export function encoded(name) {
  return Array.from(String(name), encodedCharacter).join("");
}

function encodedCharacter(character) {
  const code = character.codePointAt(0);
  if (code >= FIRST && code <= LAST) {
    return "%" + (code - OFFSET).toString(16).toUpperCase();
  }
  return code >= 0xd800 && code < 0xe000 ? "%EF%BF%BD" : encodeURIComponent(character);
}

export function decoded(text) {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    try {
      return decodeURIComponent(run);
    } catch {
      return run.replace(/%(..)/g, (_, digits) => byteAsCharacter(parseInt(digits, 16)));
    }
  });
}

function byteAsCharacter(byte) {
  return String.fromCharCode(byte < 0x80 ? byte : OFFSET + byte);
}

/** Join the parts of a path. */
export function path(...parts) {
  return parts.map(encoded).join("/");
}
