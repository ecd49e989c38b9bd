// Run by Mocha.
"use strict";
const { useLeveret } = require("leveret-memory-server/mocha");
const { beginsEmpty } = require("./begins_empty.js");

describe("a group", () => {
  const leveret = useLeveret({ personality: "4.3" });

  for (const number of [1, 2]) it(`test ${number} begins with an empty broker`, () => beginsEmpty(leveret, "4.3"));
});
