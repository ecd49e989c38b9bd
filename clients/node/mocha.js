// For Mocha: `const leveret = useLeveret()` at the top of a file, or in a `describe`.
"use strict";
const { usedBy } = require("./runner.js");

// A hook of Mocha with a time limit of its own.
const limited = (hook) => (action, milliseconds) =>
  hook(function () {
    this.timeout(milliseconds);
    return action();
  });

const hooks = () => ({
  beforeAll: limited(globalThis.before),
  beforeEach: limited(globalThis.beforeEach),
  afterAll: limited(globalThis.after),
});

module.exports = { useLeveret: (options) => usedBy(hooks())(options) };
