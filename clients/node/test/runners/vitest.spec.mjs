// Run by Vitest.
import { test } from "vitest";
import { useLeveret } from "leveret-memory-server/vitest";
import { beginsEmpty } from "./begins_empty.js";

const leveret = useLeveret({ personality: "4.3" });

test.each([1, 2])("test %i begins with an empty broker", () => beginsEmpty(leveret, "4.3"));
