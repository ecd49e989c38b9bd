// For Mocha: `const leveret = useLeveret()` at the top of a file, or in a `describe`.
"use strict";
const { usedBy } = require("./runner.js");

const hooks = () => ({
  beforeAll: globalThis.before,
  beforeEach: globalThis.beforeEach,
  afterAll: globalThis.after,
});

module.exports = { useLeveret: (options) => usedBy(hooks())(options) };
