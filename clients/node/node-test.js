// For node:test: `const leveret = useLeveret()` at the top of a file, or in a `describe`.
"use strict";
const { after, before, beforeEach } = require("node:test");
const { usedBy } = require("./runner.js");

module.exports = { useLeveret: usedBy({ beforeAll: before, beforeEach, afterAll: after }) };
