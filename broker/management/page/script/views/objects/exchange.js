/** The page of an exchange: rates, bindings, publish, delete. */

import { get, remove } from "../../api/requests.js";
import { allowed } from "../../api/session.js";
import { h } from "../../dom/element.js";
import { compact, number, rate } from "../../dom/format.js";
import { quoted } from "../../dom/visible.js";
import { link } from "../../router.js";
import { lineChart, rangeChoice } from "../../widgets/charts.js";
import { confirmed } from "../../widgets/dialogs.js";
import { argumentLines, badge, facts, showFacts } from "../../widgets/facts.js";
import { button, card, cardWith, head } from "../../widgets/page_parts.js";
import { ranges, rates, samplesOf } from "../../widgets/samples.js";
import { each } from "../overview.js";
import { bindingForm, bindingTable } from "./bindings.js";
import { DEFAULT, exchangeFeatures, shownExchange } from "./exchanges.js";
import { publishForm } from "./publish.js";

const FLOWS = [
  { name: "publish_in", title: "Published in" },
  { name: "publish_out", title: "Routed to queues" },
];

export async function showExchange(page) {
  const { vhost, name } = page.names;
  const standard = name === DEFAULT;
  const may = await allowed(vhost, name);
  const top = head(standard ? shownExchange("") : name, { trail: [["Exchanges", link("exchanges")]] });
  const span = rangeChoice(ranges(false), "leveret.exchange.range", () => refresh());
  const chart = lineChart("Message rates", FLOWS, rate, compact);
  const about = facts([]);
  const out = bindingTable(
    "destination",
    () => may.read,
    () => refresh(),
    "No queue or exchange is bound to it.",
  );
  const from = bindingTable(
    "source",
    () => may.write,
    () => refresh(),
    "It is not bound to another exchange.",
  );
  if (may.configure && !standard && !name.startsWith("amq.")) {
    top.actions(button("Delete…", () => deleteExchange(vhost, name), "danger"));
  }
  const ways = standard
    ? card(
        "Bindings",
        h("p", { class: "soft" }, "Every queue is bound to the default exchange with its name as the routing key."),
      )
    : h(
        "div",
        { class: "sections" },
        card("Bindings from this exchange", out.element),
        card("Bindings to this exchange", from.element),
        may.read &&
          card(
            "Bind to a queue or another exchange",
            bindingForm({ vhost, name, as: "source", changed: () => refresh() }),
          ),
      );
  page.show(
    top.element,
    h(
      "div",
      { class: "sections" },
      h(
        "div",
        { class: "pair" },
        cardWith("Message rates", { actions: [span.element] }, chart.element),
        card("Exchange", about),
      ),
      ways,
      may.write && card("Publish a message", publishForm({ vhost, exchange: name, published: () => refresh() })),
    ),
  );

  async function load() {
    const [exchange, leading, coming] = await Promise.all([
      get(["exchanges", vhost, name], samplesOf(span.range, "msg_rates"), page.signal),
      standard ? [] : get(["exchanges", vhost, name, "bindings", "source"], {}, page.signal),
      standard ? [] : get(["exchanges", vhost, name, "bindings", "destination"], {}, page.signal),
    ]);
    top.about(badge(exchange.type, "accent"), badge(vhost), exchangeFeatures(exchange));
    chart.update(each(FLOWS, (flow) => rates(exchange.message_stats?.[`${flow}_details`])));
    showFacts(about, exchangeFacts(exchange));
    out.show(leading);
    from.show(coming);
  }

  const refresh = page.fresh(load);
}

function exchangeFacts(exchange) {
  return [
    ["Type", exchange.type],
    ["Survives a restart", exchange.durable ? "yes, durable" : "no, transient"],
    ["Created by", exchange.user_who_performed_action],
    ["Policy", exchange.policy],
    ["Arguments", argumentLines(exchange.arguments)],
    ["Published in", number(exchange.message_stats?.publish_in ?? 0)],
    ["Routed to queues", number(exchange.message_stats?.publish_out ?? 0)],
  ];
}

function deleteExchange(vhost, name) {
  return confirmed({
    title: "Delete this exchange?",
    text: `The exchange ${quoted(name)} and its bindings are deleted. A later publish to it closes the channel of the publisher.`,
    action: "Delete the exchange",
    run: async () => {
      await remove(["exchanges", vhost, name]);
      location.hash = link("exchanges");
    },
  });
}
