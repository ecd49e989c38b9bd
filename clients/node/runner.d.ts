import type { Leveret, StartOptions } from "./index.js";

/** A broker for the tests of a file or a group: it starts before the first, and is empty before each. */
export function useLeveret(options?: StartOptions): Leveret;
