// Compiled by TypeScript as it resolves modules for CommonJS, without "exports", and not run: each helper has its types.
import { Leveret, type StartOptions } from "leveret-memory-server";
import { useLeveret as inJest } from "leveret-memory-server/jest";
import { useLeveret as inMocha } from "leveret-memory-server/mocha";
import { useLeveret as inNode } from "leveret-memory-server/node-test";
import { useLeveret as inVitest } from "leveret-memory-server/vitest";

const options: StartOptions = { personality: "4.3" };
const used: Leveret[] = [inJest, inMocha, inNode, inVitest].map((useLeveret) => useLeveret(options));
const address = async (): Promise<string> => (await Leveret.start(options)).url;
export { address, used };
