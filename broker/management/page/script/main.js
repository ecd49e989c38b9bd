/** The start: log-in, then the layout with the pages by their addresses. */

import { authorization, forget } from "./api/credentials.js";
import { session } from "./api/session.js";
import { applyTheme } from "./dom/theme.js";
import { layout } from "./layout.js";
import { Router } from "./router.js";
import { watchSession } from "./session_end.js";
import { showAlarms } from "./views/durability/alarms.js";
import { showCommits } from "./views/durability/commits.js";
import { showCrash } from "./views/durability/crash.js";
import { showBackups } from "./views/admin/backups.js";
import { showDefinitions } from "./views/admin/definitions.js";
import { showEventLog } from "./views/admin/event_log.js";
import { showLimits } from "./views/admin/limits.js";
import { showPermissions } from "./views/admin/permissions.js";
import { showPolicies } from "./views/admin/policies.js";
import { showRehearsal } from "./views/admin/rehearsal.js";
import { showShovels } from "./views/admin/shovels.js";
import { showTracing } from "./views/admin/tracing.js";
import { showUser } from "./views/admin/user.js";
import { showUsers } from "./views/admin/users.js";
import { showVhost } from "./views/admin/vhost.js";
import { showVhosts } from "./views/admin/vhosts.js";
import { showExchange } from "./views/objects/exchange.js";
import { showExchanges } from "./views/objects/exchanges.js";
import { showQueue } from "./views/objects/queue.js";
import { showQueues } from "./views/objects/queues.js";
import { showChannel } from "./views/traffic/channel.js";
import { showChannels } from "./views/traffic/channels.js";
import { showConnection } from "./views/traffic/connection.js";
import { showConnections } from "./views/traffic/connections.js";
import { showLogin } from "./views/login.js";
import { showOverview } from "./views/overview.js";

const PAGES = [
  ["", showOverview],
  ["connections", showConnections],
  ["connections/:name", showConnection],
  ["channels", showChannels],
  ["channels/:name", showChannel],
  ["exchanges", showExchanges],
  ["exchanges/:vhost/:name", showExchange],
  ["queues", showQueues],
  ["queues/:vhost/:name", showQueue],
  ["queues/:vhost/:name/:tab", showQueue],
  ["shovels", showShovels],
  ["commits", showCommits],
  ["alarms", showAlarms],
  ["crash", showCrash],
  ["vhosts", showVhosts],
  ["vhosts/:name", showVhost],
  ["users", showUsers],
  ["users/:name", showUser],
  ["permissions", showPermissions],
  ["permissions/:kind", showPermissions],
  ["policies", showPolicies],
  ["policies/:kind", showPolicies],
  ["limits", showLimits],
  ["limits/:kind", showLimits],
  ["definitions", showDefinitions],
  ["backups", showBackups],
  ["tracing", showTracing],
  ["event-log", showEventLog],
  ["rehearsal", showRehearsal],
];

async function start() {
  applyTheme();
  if (authorization()) {
    try {
      await session.load();
      enter();
      return;
    } catch (problem) {
      if (problem.loggedOut) {
        forget();
      }
      showLogin(enter, problem.message);
      return;
    }
  }
  showLogin(enter);
}

function enter() {
  const { main, mark } = layout();
  const router = new Router(PAGES, main, mark);
  document.addEventListener("leveret:logged-out", () => router.stop());
  router.start();
}

watchSession();
start();
