"""Plugins: what RabbitMQ's do is built in here; some of it is switched on and off by the list of enabled plugins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from broker.admin.commands.node_admin import Environment
from broker.rabbitmq.conf.enabled_plugins import BUILT_IN, NEEDED, read_plugins
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import SOFTWARE, UNAVAILABLE, Misuse, Outcome, ShownText, VerbRefusal
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall

LEGEND = (
    " Configured: E = explicitly enabled; e = implicitly enabled",
    " | Status: * = running on {}",
    " |/",
)
IMPLICIT = {other for others in BUILT_IN.values() for other in others}
"""Plugins that only come with others."""


class Plugin(NamedTuple):
    """A plugin that is built in: `E`, `e` or a blank for how it was enabled, and whether it runs."""

    name: str
    enabled: str
    running: bool


def enabled_plugins(call: VerbCall) -> list[str]:
    """Return the plugins that are built in and switched on in the running broker."""
    settings = call.ask(Environment())
    return [name for name in BUILT_IN if name not in NEEDED or _is_on(settings, NEEDED[name])]


def _is_on(settings: Mapping[str, Mapping[str, Any]], setting: str) -> bool:
    section, _, name = setting.partition(".")
    return bool(settings.get(section, {}).get(name))


def _configured(call: VerbCall) -> set[str]:
    """The plugins on the list, and those that they bring along; without a list those of the image."""
    return set(read_plugins(call.place.plugins_file).started)


def _list(call: VerbCall) -> Outcome:
    pattern = re.compile(call.arguments[0] if call.arguments else "")
    running = set() if call.options.get("offline") else set(enabled_plugins(call))
    enabled = _configured(call) | running
    plugins = [
        Plugin(name, ("e" if name in IMPLICIT else "E") if name in enabled else " ", name in running)
        for name in sorted(BUILT_IN)
        if pattern.search(name)
    ]
    shown = [plugin for plugin in plugins if _wanted(call, plugin)]
    return ShownText(
        _listed(call, shown), {"format": "normal", "plugins": [_in_json(call, plugin) for plugin in shown]}
    )


def _wanted(call: VerbCall, plugin: Plugin) -> bool:
    if call.options.get("implicitly-enabled"):
        return plugin.enabled == "E"
    return plugin.enabled != " " or not call.options.get("enabled")


def _in_json(call: VerbCall, plugin: Plugin) -> dict[str, object]:
    words = {"E": "enabled", "e": "implicit", " ": "not_enabled"}
    version = call.place.version
    return {"name": plugin.name, "version": version, "enabled": words[plugin.enabled], "running": plugin.running}


def _listed(call: VerbCall, plugins: list[Plugin]) -> list[str]:
    if call.options.get("minimal"):
        return [plugin.name for plugin in plugins]
    width = max((len(plugin.name) for plugin in plugins), default=0)
    legend = [] if call.quiet else [line.format(call.node) for line in LEGEND]
    return legend + [
        f"[{plugin.enabled}{'*' if plugin.running else ' '}] {plugin.name.ljust(width)} {call.place.version}"
        for plugin in plugins
    ]


def _list_banner(call: VerbCall) -> str:
    return f'Listing plugins with pattern "{call.arguments[0] if call.arguments else ".*"}" ...'


def _is_enabled(call: VerbCall) -> Outcome:
    offline = call.options.get("offline")
    enabled = _configured(call) if offline else set(enabled_plugins(call))
    where = "" if offline else f" on node {call.node}"
    missing = [name for name in call.arguments if name not in enabled]
    if missing:
        text = f"{_named(missing, 'Plugin')} not enabled{where}. "
        raise VerbRefusal(UNAVAILABLE, f"{text}Enabled plugins and dependencies: {', '.join(sorted(enabled))}")
    return call.message(f"{_named(call.arguments, 'Plugin')} enabled{where}")


def _named(names: Iterable[str], word: str) -> str:
    several = list(names)
    return f"{word}{'s' if several[1:] else ''} {', '.join(several)} {'are' if several[1:] else 'is'}"


def _asking_banner(call: VerbCall) -> str:
    asked = _named(call.arguments, "plugin")
    if call.options.get("offline"):
        return f"Inferring if {asked} from local environment..."
    return f"Asking node {call.node} if {asked} enabled..."


def _enable(call: VerbCall) -> Outcome:
    return _configure(call, _configured(call) | _chosen(call))


def _disable(call: VerbCall) -> Outcome:
    return _configure(call, set() if call.options.get("all") else _configured(call) - set(call.arguments))


def _set(call: VerbCall) -> Outcome:
    return _configure(call, _chosen(call))


def _chosen(call: VerbCall) -> set[str]:
    unknown = [name for name in call.arguments if name not in BUILT_IN]
    if unknown:
        raise VerbRefusal(SOFTWARE, f"{{:plugins_not_found, [{', '.join(f':{name}' for name in unknown)}]}}")
    return set(BUILT_IN) if call.options.get("all") else set(call.arguments)


def _configure(call: VerbCall, names: set[str]) -> Outcome:
    """Write the list. It counts from the next start: nothing is loaded while the broker runs."""
    before, explicit = _configured(call), sorted(names - IMPLICIT)
    after = {other for name in explicit for other in (name, *BUILT_IN[name])}
    changes = {"enabled": sorted(after - before), "disabled": sorted(before - after)}
    lines = ["The following plugins have been configured:", *(f"  {name}" for name in sorted(after))]
    lines.append(f"Applying plugin configuration to {call.node}...")
    if after == before:
        lines.append("Plugin configuration unchanged.")
    else:
        _write(call, explicit)
        lines += [line for word, changed in changes.items() for line in _changed(word, changed)]
        lines += [f"set {len(after)} plugins.", "Offline change; changes will take effect at broker restart."]
    return ShownText(lines, {"mode": "offline", "set": sorted(after), **changes})


def _changed(word: str, names: list[str]) -> list[str]:
    return [f"The following plugins have been {word}:", *(f"  {name}" for name in names), ""] if names else []


def _write(call: VerbCall, names: list[str]) -> None:
    file = call.place.plugins_file
    try:
        file.write_text(f"[{','.join(names)}].\n", encoding="utf-8")
    except OSError as error:
        text = f"{file}: {error.strerror}. The settings {', '.join(NEEDED.values())} switch the same on and off"
        raise VerbRefusal(UNAVAILABLE, text) from error


def _check_named(call: VerbCall) -> None:
    if not call.arguments and not call.options.get("all"):
        raise Misuse("not enough arguments.")


def _change_banner(word: str) -> Callable[[VerbCall], str]:
    def banner(call: VerbCall) -> str:
        return "\n".join([f"{word} plugins on node {call.node}:", *call.arguments])

    return banner


_ALL = (Option("all", bool),)
_CHOICE = (
    Option("verbose", bool, "v"),
    Option("minimal", bool, "m"),
    Option("enabled", bool, "e"),
    Option("implicitly-enabled", bool, "E"),
)
LINES = """
[Plugin Management]
disable p 0-* <plugin1> [ <plugin2>] | --all [--offline] [--online]
  Takes plugins off the list of those enabled at the next start
enable p 0-* <plugin1> [ <plugin2>] | --all [--offline] [--online]
  Puts plugins on the list of those enabled at the next start
is_enabled p 1-* <plugin1> [ <plugin2>] [--offline] [--online]
  Fails if what a plugin does is not built in and switched on
list p 0-1 [pattern] [--verbose] [--minimal] [--enabled] [--implicitly-enabled]
  Lists the plugins that are built in
set p 0-* <plugin1> [ <plugin2>] [--offline] [--online]
  Makes the list of plugins enabled at the next start
"""

VERBS: dict[str, VerbAction] = {
    "list": VerbAction(_list, options=_CHOICE, banner=_list_banner, alone=True),
    "is_enabled": VerbAction(_is_enabled, banner=_asking_banner, alone=True),
    "enable": VerbAction(_enable, options=_ALL, check=_check_named, banner=_change_banner("Enabling"), alone=True),
    "disable": VerbAction(_disable, options=_ALL, check=_check_named, banner=_change_banner("Disabling"), alone=True),
    "set": VerbAction(_set, check=_check_named, banner=_change_banner("Enabling"), alone=True),
}
