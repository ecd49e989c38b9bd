// Run by Jest.
"use strict";
const { useLeveret } = require("leveret-memory-server/jest");
const { beginsEmpty } = require("./begins_empty.js");

const leveret = useLeveret({ personality: "4.3" });

test.each([1, 2])("test %i begins with an empty broker", () => beginsEmpty(leveret, "4.3"));
