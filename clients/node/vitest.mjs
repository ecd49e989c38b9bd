// For Vitest: `const leveret = useLeveret()` at the top of a file, or in a `describe`.
import { afterAll, beforeAll, beforeEach } from "vitest";
import runner from "./runner.js";

export const useLeveret = runner.usedBy({ afterAll, beforeAll, beforeEach });
