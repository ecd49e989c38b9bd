// A broker for a file or a group of tests, by the hooks of a test runner.
"use strict";
const { Leveret } = require("./index.js");

// Milliseconds for a start: a few hundred, but runners give a hook two seconds, and a machine may be busy.
const HOOK_MILLISECONDS = 60_000;

// Return the `useLeveret` of a runner, whose hooks are called with a function and its time limit. The broker starts
// before the first test and is empty before each.
function usedBy({ beforeAll, beforeEach, afterAll }) {
  return (options) => {
    const leveret = new Leveret(options);
    beforeAll(() => leveret.fresh(), HOOK_MILLISECONDS);
    beforeEach(() => leveret.fresh(), HOOK_MILLISECONDS);
    afterAll(() => leveret.close(), HOOK_MILLISECONDS);
    return leveret;
  };
}

module.exports = { usedBy };
