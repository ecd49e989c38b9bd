// A broker for a file or a group of tests, by the hooks of a test runner.
"use strict";
const { Leveret } = require("./index.js");

// Return the `useLeveret` of a runner. The broker starts before the first test and is empty before each.
function usedBy({ beforeAll, beforeEach, afterAll }) {
  return (options) => {
    const leveret = new Leveret(options);
    beforeAll(() => leveret.fresh());
    beforeEach(() => leveret.fresh());
    afterAll(() => leveret.close());
    return leveret;
  };
}

module.exports = { usedBy };
