/** Names as text in which nothing is hidden: blanks at their ends, double blanks and invisible characters have a mark. */

import { h } from "./element.js";

// Joiners are parts of words and emoji, and blanks and joiners are marked at the ends alone, or side by side.
const HIDDEN = /^[ \u200c\u200d]+|[ \u200c\u200d]+$| {2,}|(?![ \u200c\u200d\u{e0020}-\u{e007f}])[\s\p{Cc}\p{Cf}]/gu;
const MARKS = { " ": "␣", "\t": "⇥", "\n": "↵", "\r": "↵" };

/** The parts of a name. Copying them gives the name itself. */
export function named(name) {
  const text = String(name);
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    parts.push(text.slice(end, found.index), marked(found[0]));
    end = found.index + found[0].length;
  }
  return end ? [...parts, text.slice(end)] : [text];
}

/** A name with marks as a text, for choices. */
export function markedText(text) {
  return text.replace(HIDDEN, (found) => Array.from(found, mark).join(""));
}

/** A name within a sentence. */
export function quoted(name) {
  return `“${name}”`;
}

function marked(characters) {
  return h("span", { class: "hidden-characters", "data-marks": Array.from(characters, mark).join("") }, characters);
}

function mark(character) {
  return MARKS[character] ?? `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
