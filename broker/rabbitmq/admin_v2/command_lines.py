"""The commands of `rabbitmqadmin` version 2: their names, arguments and, where one request is all, that request."""

from __future__ import annotations

import re
from typing import NamedTuple

LINES = """
auth_attempts stats | --node! | GET auth/attempts/{node} auth_attempts

bindings declare, declare binding, exchanges bind | --source! --destination-type:destination! --destination!
  --routing-key! --arguments={}
bindings delete, delete binding, exchanges unbind | --source! --destination-type:destination! --destination!
  --routing-key! --arguments={} --idempotently?
bindings list, list bindings | | GET bindings bindings

channels list, list channels | @page | GET channels channels

close connection, connections close | --name! --idempotently? | DELETE connections/{name} close
close user_connections, connections close_of_user | -u,--username! --idempotently? |
  DELETE connections/username/{username} close
connections list, list connections | @page | GET connections connections
connections list_of_user, list user_connections, users connections | -u,--username! |
  GET connections/username/{username} user_connections

config_file show_path
config_file show | --reveal-passwords?
config_file add_node | @node
config_file update_node | @node
config_file delete_node | -N,--node! --create-file-if-missing?

declare user, users declare | --name! --password-hash= --password= --hashing-algorithm:algorithm=SHA256 --tags=
delete user, users delete | --name! --idempotently? | DELETE users/{name}
users list, list users | @page | GET users users

declare vhost, vhosts declare | --name! --default-queue-type --description --tracing?
delete vhost, vhosts delete | --name! --idempotently? | DELETE vhosts/{name}
vhosts delete_multiple | --name-pattern! --approve? --dry-run? --idempotently?
vhosts list, list vhosts | | GET vhosts vhosts
vhosts enable_deletion_protection | --name! | POST vhosts/{name}/deletion/protection
vhosts disable_deletion_protection | --name! | DELETE vhosts/{name}/deletion/protection

declare permissions, permissions declare | --username,--user! --configure! --read! --write!
delete permissions, permissions delete | --username,--user! --idempotently? | DELETE permissions/{vhost}/{username}
permissions list, list permissions, users permissions | | GET permissions permissions

declare user_limit, user_limits declare | --username,--user! --name! --value!
delete user_limit, user_limits delete | --username,--user! --name! | DELETE user-limits/{username}/{name}
user_limits list, list user_limits, users limits | --username,--user

declare vhost_limit, vhost_limits declare | --name! --value!
delete vhost_limit, vhost_limits delete | --name! | DELETE vhost-limits/{vhost}/{name} absent
vhost_limits list, list vhost_limits | | GET vhost-limits/{vhost} vhost_limits

declare queue, queues declare | --name! --type=classic --durable:bool=true --auto-delete:bool=false --arguments={}
delete queue, queues delete, delete stream, streams delete | --name! --idempotently? | DELETE queues/{vhost}/{name}
list queues | @page | GET queues/{vhost} queues
queues list, streams list | @page --columns | GET queues/{vhost} queues
queues show, streams show | --name! --columns | GET queues/{vhost}/{name} queues
purge queue, queues purge | --name! | DELETE queues/{vhost}/{name}/contents
rebalance queues, queues rebalance | | POST rebalance/queues
declare stream, streams declare | --name! --expiration! --max-length-bytes:u64 --stream-max-segment-size-bytes:u64
  --arguments={}

declare exchange, exchanges declare | --name! --type=direct --durable:bool=true --auto-delete:bool=false --arguments={}
delete exchange, exchanges delete | --name! --idempotently? | DELETE exchanges/{vhost}/{name}
exchanges list, list exchanges | @page | GET exchanges/{vhost} exchanges

list consumers | | GET consumers consumers
publish message | -k,--routing-key= -e,--exchange= -m,--payload=test -p,--properties={}
get messages | -q,--queue! -c,--count=1 -a,--ack-mode=ack_requeue_false

declare parameter, parameters set, parameters declare | --name! --component! --value!
delete parameter, parameters clear, parameters delete | --name! --component! --idempotently? |
  DELETE parameters/{component}/{vhost}/{name}
parameters list, list parameters | --component
parameters list_in | --component! | GET parameters/{component}/{vhost} parameters
parameters list_all | | GET parameters parameters
global_parameters set, global_parameters declare | --name! --value!
global_parameters clear, global_parameters delete | --name! --idempotently? | DELETE global-parameters/{name}
global_parameters list | | GET global-parameters global_parameters

declare policy, policies declare, policies update, policies set | @policy --priority=0
declare operator_policy, operator_policies declare, operator_policies update, operator_policies set |
  @policy --priority=0
policies declare_override | --name! --override-name --definition!
policies declare_blanket | --name! --apply-to,--applies-to:target! --definition!
delete policy, policies delete | --name! --idempotently? | DELETE policies/{vhost}/{name}
delete operator_policy, operator_policies delete | --name! --idempotently? | DELETE operator-policies/{vhost}/{name}
policies list, list policies | | GET policies policies
operator_policies list, list operator_policies | | GET operator-policies policies
policies list_in | --apply-to,--applies-to:target
operator_policies list_in | --apply-to,--applies-to:target
policies list_matching_object | --name! --type:target!
operator_policies list_matching_object | --name! --type:target!
policies list_conflicting
policies list_conflicting_in
policies patch | --name! --definition!
operator_policies patch | --name! --definition!
policies update_definition | --name! --definition-key! --new-value!
operator_policies update_definition | --name! --definition-key! --new-value!
policies update_definitions_of_all_in | --definition-key! --new-value!
operator_policies update_definitions_of_all_in | --definition-key! --new-value!
policies update_definitions_of_all | --definition-key! --new-value!
policies delete_definition_keys | --name! --definition-keys:list!
operator_policies delete_definition_keys | --name! --definition-keys:list!
policies delete_definition_keys_from_all_in | --definition-keys:list!
operator_policies delete_definition_keys_from_all_in | --definition-keys:list!
policies delete_definition_keys_from_all | --definition-keys:list!

definitions export, export definitions | --file=- --stdout? -t,--transformations:list
definitions export_from_vhost | --file=- --stdout? -t,--transformations:list
definitions import | --file! --stdin?
import definitions | --file!
definitions import_into_vhost | --file! --stdin?

feature_flags list, list feature_flags | | GET feature-flags feature_flags
feature_flags enable | --name!
feature_flags enable_all
deprecated_features list, list deprecated_features | | GET deprecated-features deprecated_features
deprecated_features list_used, list deprecated_features_in_use | | GET deprecated-features/used deprecated_features

health_check local_alarms | | CHECK local-alarms
health_check cluster_wide_alarms | | CHECK alarms
health_check node_is_quorum_critical | | CHECK node-is-quorum-critical
health_check port_listener | --port:u16! | CHECK port-listener/{port}
health_check protocol_listener | --protocol! | CHECK protocol-listener/{protocol}

nodes list, list nodes | | GET nodes nodes
nodes memory_breakdown_in_bytes, show memory_breakdown_in_bytes | --node!
nodes memory_breakdown_in_percent, show memory_breakdown_in_percent | --node!
plugins list_all
plugins list_on_node | --node!
show overview
show churn
show endpoint

passwords salt_and_hash | password! --hashing-algorithm:algorithm=SHA256

shovels list_all | | GET shovels shovels
shovels list | | GET shovels/{vhost} shovels
shovels delete, delete shovel | --name! --idempotently? | DELETE parameters/shovel/{vhost}/{name}
shovels declare_amqp091 | -n,--name! --source-uri! --destination-uri! --ack-mode=on-confirm --source-queue
  --source-exchange --source-exchange-routing-key --destination-queue --destination-exchange
  --destination-exchange-routing-key --predeclared-source? --predeclared-destination? --reconnect-delay:u32=5
  --publish-properties={}
shovels declare_amqp10 | -n,--name! --source-uri! --destination-uri! --ack-mode=on-confirm --source-address!
  --destination-address! --reconnect-delay:u32=5
shovels disable_tls_peer_verification_for_all_source_uris
shovels disable_tls_peer_verification_for_all_destination_uris
shovels enable_tls_peer_verification_for_all_source_uris | @certificates
shovels enable_tls_peer_verification_for_all_destination_uris | @certificates

federation list_all_upstreams
federation list_all_links | | GET federation-links federation_links
federation declare_upstream | @upstream @upstream-queue @upstream-exchange
federation declare_upstream_for_queues | @upstream @upstream-queue
federation declare_upstream_for_exchanges | @upstream @upstream-exchange
federation delete_upstream | --name! --idempotently? | DELETE parameters/federation-upstream/{vhost}/{name}
federation disable_tls_peer_verification_for_all_upstreams
federation enable_tls_peer_verification_for_all_upstreams | @certificates
"""
"""Names, one or more with commas between; arguments; the request.

Of an argument: short and other names before it, `:kind` of its values, `=default`, `!` for a must, `?` for a flag; @
stands for a group. The last word of a GET is the kind of row that it lists.
"""

GROUPS = {
    "page": "--page:page --page-size:page_size",
    "policy": "--name! --pattern! --apply-to,--applies-to:target! --definition!",
    "node": "-N,--node -H,--host -P,--port:u16 -U,--base-uri --path-prefix -u,--username -p,--password "
    "-s,--scheme:scheme --use-tls? --tls-ca-cert-file --tls-cert-file --tls-key-file --create-file-if-missing?",
    "certificates": "--node-local-ca-certificate-bundle-path! --node-local-client-certificate-file-path! "
    "--node-local-client-private-key-file-path!",
    "upstream": "--name! --uri! --reconnect-delay:u32=5 --trust-user-id:bool=true --prefetch-count:u32=1000 "
    "--ack-mode=on-confirm --bind-using-nowait:bool=false --channel-use-mode=multiple",
    "upstream-queue": "--queue-name --consumer-tag",
    "upstream-exchange": "--exchange-name --queue-type --max-hops:u8=1 --resource-cleanup-mode=default --ttl:u32 "
    "--message-ttl:u32",
}

ABOUT = {
    "auth_attempts": "attempts to log in, by protocol",
    "bindings": "bindings",
    "channels": "channels",
    "close": "close connections",
    "config_file": "the configuration file of this program",
    "connections": "connections of clients",
    "declare": "create or change objects",
    "definitions": "definitions: all but messages, as JSON",
    "delete": "delete objects",
    "deprecated_features": "features that will go",
    "exchanges": "exchanges",
    "export": "definitions export",
    "feature_flags": "feature flags",
    "federation": "federation upstreams and links",
    "get": "take messages off a queue, for tests",
    "global_parameters": "parameters of the broker",
    "health_check": "checks of the broker, for probes",
    "import": "definitions import",
    "list": "list objects",
    "nodes": "nodes and their memory",
    "operator_policies": "operator policies",
    "parameters": "parameters of a virtual host",
    "passwords": "hashes of passwords",
    "permissions": "permissions of users",
    "plugins": "enabled plugins",
    "policies": "policies",
    "publish": "publish a message, for tests",
    "purge": "delete the ready messages of a queue",
    "queues": "queues and streams",
    "rebalance": "move leaders of queues",
    "show": "state of the broker",
    "shovels": "shovels",
    "streams": "streams",
    "users": "users",
    "user_limits": "limits of users",
    "vhosts": "virtual hosts",
    "vhost_limits": "limits of virtual hosts",
}
"""The groups of commands, each with its line in the overview."""


class Argument(NamedTuple):
    """An argument of a command: its names on the command line, the last of the first kind is the one that is shown."""

    names: tuple[str, ...]
    """With their dashes; a name without them is that of a positional one."""
    kind: str
    default: str | None
    required: bool

    @property
    def shown(self) -> str:
        """The name that messages show."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])

    @property
    def key(self) -> str:
        """The name of its value."""
        return self.shown.lstrip("-").replace("-", "_")


class CommandSyntax(NamedTuple):
    """A command: `name` is that of its action, `path` its own. `request` has method, path and what is listed."""

    name: str
    path: tuple[str, str]
    arguments: tuple[Argument, ...]
    request: tuple[str, ...]


_ARGUMENT = re.compile(r"(?P<names>[\w,-]+?)(:(?P<kind>\w+))?(=(?P<default>.*))?(?P<mark>[!?])?")


def _argument(word: str) -> Argument:
    found = _ARGUMENT.fullmatch(word)
    assert found is not None, word
    kind = "flag" if found["mark"] == "?" else found["kind"] or "text"
    return Argument(tuple(found["names"].split(",")), kind, found["default"], found["mark"] == "!")


def _commands(text: str) -> dict[tuple[str, str], CommandSyntax]:
    found = {}
    for line in re.sub(r"\n  ", " ", text).strip().splitlines():
        if not line:
            continue
        names, words, request = [*(part.strip() for part in line.split("|")), "", ""][:3]
        words = re.sub(r"@(\S+)", lambda group: GROUPS[group[1]], words)
        arguments = tuple(map(_argument, words.split()))
        first, *_ = names.split(", ")
        for name in names.split(", "):
            group, _, command = name.partition(" ")
            found[group, command] = CommandSyntax(first, (group, command), arguments, tuple(request.split()))
    return found


COMMANDS = _commands(LINES)
"""By group and name."""
