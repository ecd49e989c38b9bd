"""The process: waited for, asked whether it is there, stopped; its limits while it runs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from broker.admin.commands.feature_flags import EnableFeatureFlag
from broker.admin.commands.node_admin import (
    Ping,
    SetDiskFreeLimit,
    SetLogLevel,
    SetVmMemoryHighWatermark,
    ShowVersion,
    StartApplication,
    Status,
    Stop,
    StopApplication,
)
from broker.admin.protocol import AdministrationError, NotRunning, TimedOut
from broker.admin.socket_conversation import ask
from broker.cli.named_directory import in_use
from broker.cli.target_broker import LOOK_SECONDS, await_end
from broker.rabbitmq.conf.conf_values import Unfit, size
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import (
    SOFTWARE,
    UNAVAILABLE,
    USAGE,
    Misuse,
    Outcome,
    ShownText,
    VerbRefusal,
    bad_argument,
)
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking, generally_refused
from broker.rabbitmq.ctl.verbs.check_verbs import alarm_texts

PING_SECONDS, STARTUP_SECONDS, WAIT_SECONDS = 60.0, 300.0, 10.0
LOG_LEVELS = ("debug", "info", "warning", "error", "critical", "none")
_FRACTION = re.compile(r"-?\d+(\.\d+)?")


def _ping_milliseconds(call: VerbCall) -> int:
    return int((PING_SECONDS if call.timeout is None else call.timeout) * 1000)


def _ping(call: VerbCall) -> Outcome:
    try:
        call.ask(Ping())
    except (NotRunning, TimedOut) as error:
        text = f"Failed to connect and authenticate to {call.node} in {_ping_milliseconds(call)} ms"
        raise VerbRefusal(UNAVAILABLE, text) from error
    return call.message("Ping succeeded")


def _ping_banner(call: VerbCall) -> str:
    about = "This only checks if the OS process is running and registered with epmd."
    return f"Will ping {call.node}. {about} Timeout: {_ping_milliseconds(call)} ms."


def _version(call: VerbCall) -> Outcome:
    version = call.place.version
    return ShownText([version], {"node": call.node, "result": "ok", "value": {"version": version}})


def _server_version(call: VerbCall) -> Outcome:
    version = call.ask(Status())["rabbitmq_version"]
    return ShownText([version], {"result": "ok", "value": version})


# Starting and stopping


def _connects(call: VerbCall) -> bool:
    try:
        call.ask(Ping())
    except NotRunning:
        return False
    return True


def _await_startup(call: VerbCall) -> Outcome:
    """A broker in its start holds its stores, and does not answer yet."""
    deadline = time.monotonic() + (STARTUP_SECONDS if call.timeout is None else call.timeout)
    if call.place.stopped:
        _await_application(call, deadline)
    while not _connects(call):
        if not in_use(call.place.directory) and not _connects(call):
            raise NotRunning(call.place.directory)
        if time.monotonic() > deadline:
            raise TimedOut("the broker did not start in time")
        time.sleep(LOOK_SECONDS)
    return call.done()


def _await_application(call: VerbCall, deadline: float) -> None:
    """Await start_app, for which RabbitMQ before 4 does not wait. Raises VerbRefusal."""
    while call.place.series.startswith("4.") and time.monotonic() < deadline:
        if not call.ask(ShowVersion()).get("stopped", False):
            return
        time.sleep(LOOK_SECONDS)
    raise VerbRefusal(UNAVAILABLE, "rabbit_is_not_running")


def _wait(call: VerbCall) -> Outcome:
    return ShownText(_waiting(call), {"node": call.node, "result": "ok"})


def _waiting(call: VerbCall) -> Iterator[str]:
    """Yield the lines of progress; none with --quiet."""
    call.timeout = WAIT_SECONDS if call.timeout is None else call.timeout
    deadline = time.monotonic() + call.timeout
    for text in _steps(call, deadline):
        if not call.quiet:
            yield text


def _steps(call: VerbCall, deadline: float) -> Iterator[str]:
    pid = call.options.get("pid")
    if pid is None:
        file = Path(call.arguments[0])
        yield f"Waiting for pid file '{file}' to appear"
        while not file.exists():
            _look_again(deadline)
        pid = int(file.read_text().strip())
        yield f"pid is {pid}"
    yield f"Waiting for erlang distribution on node '{call.node}' while OS process '{pid}' is running"
    while _runs(pid) and not _connects(call):
        _look_again(deadline)
    if not _runs(pid):
        raise VerbRefusal(UNAVAILABLE, "process_not_running")
    yield f"Waiting for applications 'rabbit_and_plugins' to start on node '{call.node}'"
    yield f"Applications 'rabbit_and_plugins' are running on node '{call.node}'"


def _runs(pid: int) -> bool:
    """Return whether there is a process of this id, of whatever user."""
    try:
        os.kill(max(pid, 1), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return pid > 0
    return pid > 0


def _look_again(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimedOut("what is waited for did not come in time")
    time.sleep(LOOK_SECONDS)


def _check_wait(call: VerbCall) -> None:
    if not call.arguments and "pid" not in call.options:
        raise Misuse('"No pid or pidfile specified"')
    if call.arguments and "pid" in call.options:
        raise Misuse('"Cannot specify both pid and pidfile"')


def _stop(call: VerbCall) -> Outcome:
    try:
        call.ask(Stop())
    except NotRunning:
        if not call.options.get("idempotent"):
            raise
        return call.message(f"Node {call.node} is no longer running")
    await_end(call.place.directory)
    return call.done()


def _shutdown(call: VerbCall) -> Outcome:
    return ShownText(_ending(call), {"node": call.node, "result": "ok"})


def _ending(call: VerbCall) -> Iterator[str]:
    pid = call.ask(Status())["pid"]
    process = f"RabbitMQ node {call.node} running at PID {pid}"
    if not call.quiet:
        yield f"Shutting down {process}"
    call.ask(Stop())
    if call.options.get("wait", True):
        if not call.quiet:
            yield f"Waiting for PID {pid} to terminate"
        await_end(call.place.directory)
        if not call.quiet:
            yield f"{process} successfully shut down"


def _stop_app(call: VerbCall) -> Outcome:
    call.ask(StopApplication())
    return call.done()


def _start_app(call: VerbCall) -> Outcome:
    """Return when the broker serves clients, which takes a start in its process if it was stopped."""
    if not call.place.stopped:
        return call.done()
    pid = call.ask(Status())["pid"]
    call.ask(StartApplication())
    deadline = time.monotonic() + (STARTUP_SECONDS if call.timeout is None else call.timeout)
    while not _serves(call):
        if not _runs(pid):
            raise NotRunning(call.place.directory)
        _look_again(deadline)
    return call.done()


def _serves(call: VerbCall) -> bool:
    """Return whether the broker answers, and serves clients. It does not answer while it starts."""
    try:
        return not ask(call.place.directory, ShowVersion(), call.timeout)["stopped"]
    except AdministrationError:
        return False


def _nothing_to_start(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return call.done()


def _await_online_nodes(call: VerbCall) -> Outcome:
    call.ask(Ping())
    if int(call.arguments[0]) > 1:
        text = f"Error: timed out while waiting. Not enough nodes joined {call.node}'s cluster."
        raise VerbRefusal(SOFTWARE, text)
    return call.done()


def _check_count(call: VerbCall) -> None:
    if not call.arguments[0].isdigit() or int(call.arguments[0]) < 1:
        raise bad_argument("Argument must be a positive integer")


def _nodes_banner(call: VerbCall) -> str:
    seconds = 300 if call.timeout is None else int(call.timeout)
    count = call.arguments[0]
    return f"Will wait for at least {count} nodes to join the cluster of {call.node}. Timeout: {seconds} seconds."


def _node_health_check(call: VerbCall) -> Outcome:
    if not call.dialect.health_checked:
        return call.done()
    raised = alarm_texts(call)
    if raised:
        raise VerbRefusal(SOFTWARE, f"Error: health check failed. Message: {'; '.join(raised)}")
    return call.message("Health check passed")


def _health_banner(call: VerbCall) -> str:
    if not call.dialect.health_checked:
        return (
            "This command is DEPRECATED and is a no-op. It will be removed in a future version. \n"
            "Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead."
        )
    return "\n".join(
        (
            "This command is DEPRECATED and will be removed in a future version.",
            "It performs intrusive, opinionated health checks and requires a fully booted node.",
            "Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead.",
            f"Timeout: {70 if call.timeout is None else int(call.timeout)} seconds ...",
            f"Checking health of node {call.node} ...",
        )
    )


# Limits


def _set_memory(call: VerbCall) -> Outcome:
    first, *rest = call.arguments
    limit = {"bytes": size(rest[0])} if rest else {"fraction": float(first)}
    call.ask(SetVmMemoryHighWatermark(**limit))
    return call.done()


def _check_memory(call: VerbCall) -> None:
    first, *rest = call.arguments
    if first == "absolute":
        if not rest:
            raise Misuse("not enough arguments.")
        _check_size(rest[0], "Invalid units." if rest[0].isalnum() else "The threshold should be an integer.")
    elif rest:
        raise Misuse("too many arguments.")
    elif not _FRACTION.fullmatch(first):
        raise bad_argument("")
    elif not 0 <= float(first) <= 1:
        raise bad_argument("The threshold should be a fraction between 0.0 and 1.0")


def _check_size(text: str, otherwise: str) -> None:
    try:
        size(text)
    except Unfit:
        raise bad_argument(otherwise) from None


def _memory_banner(call: VerbCall) -> str:
    first, *rest = call.arguments
    return f"Setting memory threshold on {call.node} to {f'{rest[0]} bytes' if rest else first} ..."


def _set_disk(call: VerbCall) -> Outcome:
    first, *rest = call.arguments
    call.ask(SetDiskFreeLimit(**{"mem_relative": float(rest[0])} if rest else {"bytes": size(first)}))
    return call.done()


def _check_disk(call: VerbCall) -> None:
    first, *rest = call.arguments
    if first == "mem_relative":
        if not rest:
            raise Misuse("not enough arguments.")
        if not _FRACTION.fullmatch(rest[0]) or float(rest[0]) < 0:
            raise bad_argument("")
    elif rest:
        raise Misuse("too many arguments.")
    else:
        _check_size(first, "")


def _disk_banner(call: VerbCall) -> str:
    first, *rest = call.arguments
    limit = f"{rest[0]} times the total RAM" if rest else f"{first} bytes"
    return f"Setting disk free limit on {call.node} to {limit} ..."


def _set_log_level(call: VerbCall) -> Outcome:
    call.ask(SetLogLevel(level=call.arguments[0]))
    return call.done()


def _check_log_level(call: VerbCall) -> None:
    if call.arguments[0] not in LOG_LEVELS:
        text = f"level {call.arguments[0]} is not supported. Try one of {', '.join(LOG_LEVELS)}"
        raise VerbRefusal(UNAVAILABLE, text)


def _no_flag(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    if error.kind == "not_found":
        return VerbRefusal(USAGE, f"This feature flag is not supported by node {call.node}")
    return generally_refused(call, error)


def _flag_banner(call: VerbCall) -> str:
    name = call.arguments[0]
    return "Enabling all feature flags ..." if name == "all" else f'Enabling feature flag "{name}" ...'


# What has nothing to do


def _rotate_logs(call: VerbCall) -> Outcome:
    raise VerbRefusal(UNAVAILABLE, "This command does not rotate logs anymore [deprecated]")


def _hipe_compile(call: VerbCall) -> Outcome:
    return call.message("This command is a no-op. HiPE is no longer supported by modern Erlang versions")


def _rename_node(call: VerbCall) -> Outcome:
    why = "Node renaming is incompatible with Raft-based features such as quorum queues, streams, Khepri."
    return call.message(f"DEPRECATED. This command is a no-op. {why}")


def _rebalance(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return call.done()


def _rebalance_banner(call: VerbCall) -> str:
    which = call.arguments[0]
    return f"Re-balancing leaders of {'all' if which == 'all' else which} queues..."


_PID = (Option("pid", int, "P"),)
LINES = """
[Help]
version cdp 0-0
  Shows the RabbitMQ version whose behaviour this is

[Nodes]
await_startup c 0-0
  Waits until the broker is through with its start
rotate_logs c 0-*
  Does nothing, as in RabbitMQ
shutdown c 0-0 [--wait] [--timeout <timeout>]
  Stops the broker
start_app c 0-0
  Serves clients again after stop_app
  Starting node {node} ...
stop_app c 0-0
  Closes listeners and connections, and leaves the process running
  Stopping rabbit application on node {node} ...
stop c 0-1 [--idempotent] [<pidfile>]
  Stops the broker
  Stopping and halting node {node} ...
wait cd 0-1 [<pidfile>] [--pid|-P <pid>] [--timeout <timeout>]
  Waits until the broker of a process runs

[Cluster]
await_online_nodes c 1-1 <count> [--timeout <timeout>]
  Waits for a number of nodes; there is one
force_standalone_khepri_boot c 0-0 since=3.13
  Does nothing: there is one node
rebalance q 1-1 < all | classic | quorum > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
  Does nothing: there is one node

[Monitoring, observability and health checks]
ping cd 0-0 [--timeout <timeout>]
  Fails if the broker does not answer
server_version d 0-0 [--timeout <timeout>]
  Shows the RabbitMQ version whose behaviour the broker's is
  Asking node {node} for its RabbitMQ version...

[Configuration and Environment]
set_disk_free_limit c 1-2 <disk_limit> | mem_relative <fraction>
  Has publishers wait while less of the disk is free
set_log_level c 1-1 <log_level>
  Logs from this level on
  Setting log level to "{0}" ...
set_vm_memory_high_watermark c 1-2 <fraction> | absolute <value>
  Has publishers wait while more memory is in use

[Feature flags]
enable_feature_flag c 1-1 <all | feature_flag>
  Does nothing: all are enabled

[Upgrade]
post_upgrade u 0-0
  Does nothing: there is one node
  Executing post upgrade tasks...

[Deprecated]
hipe_compile c 1-1 until=3.13 <directory>
  Does nothing, as in RabbitMQ
node_health_check cd 0-0 until=3.13 [--timeout <timeout>]
  Fails if the broker does not answer, or memory or disk is short
node_health_check cd 0-0 since=4.2 [--timeout <timeout>]
  Does nothing, as in RabbitMQ
rename_cluster_node c 0-* since=4.2 <oldnode1> <newnode1> [oldnode2] [newnode2] ...
  Does nothing, as in RabbitMQ
"""

VERBS: dict[str, VerbAction] = {
    "ping": VerbAction(_ping, banner=_ping_banner, alone=True),
    "version": VerbAction(_version, alone=True),
    "server_version": VerbAction(_server_version),
    "await_startup": VerbAction(_await_startup, alone=True),
    "wait": VerbAction(_wait, options=_PID, check=_check_wait, alone=True),
    "stop": VerbAction(_stop, options=(Option("idempotent", bool),), alone=True),
    "shutdown": VerbAction(_shutdown, options=(Option("wait", bool),), while_stopped=True),
    "start_app": VerbAction(_start_app, while_stopped=True),
    "stop_app": VerbAction(_stop_app, while_stopped=True),
    "await_online_nodes": VerbAction(_await_online_nodes, check=_check_count, banner=_nodes_banner),
    "node_health_check": VerbAction(_node_health_check, banner=_health_banner),
    "set_vm_memory_high_watermark": VerbAction(_set_memory, check=_check_memory, banner=_memory_banner),
    "set_disk_free_limit": VerbAction(_set_disk, check=_check_disk, banner=_disk_banner),
    "set_log_level": VerbAction(_set_log_level, check=_check_log_level),
    "enable_feature_flag": asking(lambda call, name: EnableFeatureFlag(name=name), _no_flag, banner=_flag_banner),
    "rotate_logs": VerbAction(_rotate_logs),
    "hipe_compile": VerbAction(_hipe_compile, alone=True),
    "rename_cluster_node": VerbAction(_rename_node, alone=True),
    "force_standalone_khepri_boot": VerbAction(_nothing_to_start),
    "post_upgrade": VerbAction(_nothing_to_start),
    "rebalance": VerbAction(
        _rebalance,
        options=(Option("vhost-pattern", str), Option("queue-pattern", str)),
        banner=_rebalance_banner,
    ),
}
