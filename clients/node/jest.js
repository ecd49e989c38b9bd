// For Jest: `const leveret = useLeveret()` at the top of a file, or in a `describe`.
"use strict";
const { usedBy } = require("./runner.js");

module.exports = { useLeveret: (options) => usedBy(globalThis)(options) };
