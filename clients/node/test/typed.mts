// Compiled by TypeScript with `strict`, and not run: the types fit their use.
import { Control, Fault, Leveret, LeveretError, NotMetError, type Event } from "leveret-memory-server";
import { useLeveret } from "leveret-memory-server/vitest";

const leveret: Leveret = await Leveret.start({ personality: "4.3", settings: "[limits]\n" });
const url: string = leveret.url;
const events: Event[] = await leveret.expect("acked", { queue: "orders", count: 3, timeoutSeconds: 1 });
await leveret.expect({ queue: "orders", ready: 0 });
const fault: Fault = await leveret.faults.add("delay-confirms", { milliseconds: 5, routingKey: "orders" });
const fired: number = await fault.fired();
await leveret.clock.set(new Date(), { heartbeats: true });
await leveret.snapshot.save("shop");
await new Control(leveret.managementUrl).reset();
const used: Leveret = useLeveret({ personality: "3.13" });
// @ts-expect-error: there is no such personality
await Leveret.start({ personality: "3.9" });
// @ts-expect-error: a broker is started with options, not with a text
await Leveret.start("4.3");
export { events, fired, LeveretError, NotMetError, url, used };
