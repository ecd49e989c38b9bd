// For node:test: `const leveret = useLeveret()` at the top of a file, or in a `describe`.
"use strict";
const { after, before, beforeEach } = require("node:test");
const { usedBy } = require("./runner.js");

// A hook of node:test with a time limit of its own.
const limited = (hook) => (action, timeout) => hook(action, { timeout });

module.exports = {
  useLeveret: usedBy({ beforeAll: limited(before), beforeEach: limited(beforeEach), afterAll: limited(after) }),
};
