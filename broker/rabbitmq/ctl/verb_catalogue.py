"""The verbs: for each its name, where it is, how many arguments it takes and how it is used; what it does; its banner.

`c` is rabbitmqctl, `d` rabbitmq-diagnostics, `p` rabbitmq-plugins, `q` rabbitmq-queues, `s` rabbitmq-streams, `u`
rabbitmq-upgrade. `since=` and `until=` name the first and the last series of RabbitMQ that has a verb in this form. In a
banner, {0} is the first argument; {vhost} and {node} are what the command line names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from broker.entities.arguments.personality import PERSONALITIES

TOOLS = {
    "c": "rabbitmqctl",
    "d": "rabbitmq-diagnostics",
    "p": "rabbitmq-plugins",
    "q": "rabbitmq-queues",
    "s": "rabbitmq-streams",
    "u": "rabbitmq-upgrade",
}

LINES = """
[Help]
autocomplete cdpq 1-1 [prefix] [--timeout <timeout>]
  Lists the verbs that begin so
help cdpqsu 0-1 (<command> | [--list-commands])
  Explains a verb, or lists all
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
  Does nothing to a broker that runs
  Starting node {node} ...
stop c 0-1 [--idempotent] [<pidfile>]
  Stops the broker
  Stopping and halting node {node} ...
wait cd 0-1 [<pidfile>] [--pid|-P <pid>] [--timeout <timeout>]
  Waits until the broker of a process runs

[Cluster]
await_online_nodes c 1-1 <count> [--timeout <timeout>]
  Waits for a number of nodes; there is one
cluster_status cd 0-0 [--timeout <timeout>]
  Shows the one node of the cluster
  Cluster status of node {node} ...
force_standalone_khepri_boot c 0-0 since=3.13
  Does nothing: there is one node
grow q 2-2 since=4.2 <node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <promotable|voter>]
  Does nothing: each queue is on its node already
  Growing {1} queues on {0}...
grow s 2-2 since=4.2 <node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--errors-only]
  Does nothing: each stream is on its node already
  Growing {1} streams on {0}...
grow_to_count q 2-2 since=4.3 <node_count> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <promotable|voter>]
  Does nothing: each queue is on its node already
  Growing {1} quorum queues on {0} nodes...
rebalance q 1-1 < all | classic | quorum > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
  Does nothing: there is one node
shrink q 1-1 since=4.2 <node> [--errors-only]
  Fails for each queue: it is on one node
  Shrinking queues on {0}...
shrink s 1-1 since=4.2 <node> [--errors-only]
  Fails for each stream: it is on one node
  Shrinking streams on {0}...

[Replication]
add_member q 2-2 since=4.2 [--vhost <vhost>] <queue> <node> [--membership <promotable|voter>] [--timeout <timeout>]
  Does nothing: a queue is on its node already
  Adding a member for queue {0} on node {1}...
add_replica s 2-2 until=3.13 [--vhost <vhost>] <queue> <node>
  Does nothing: a stream is on its node already
  Adding a replica for queue {0} on node {1}...
add_replica s 2-2 since=4.2 [--vhost <vhost>] <stream> <node> [--timeout <timeout>]
  Does nothing: a stream is on its node already
  Adding a replica for stream {0} on node {1}...
cancel_sync_queue c 1-1 until=3.13 [--vhost <vhost>] <queue>
  Does nothing: no queue is mirrored
  Stopping synchronising queue '{0}' in vhost '{vhost}' ...
delete_member q 2-2 since=4.2 [--vhost <vhost>] <queue> <node>
  Fails: a queue is on one node
  Removing a replica of queue {0} on node {1}...
delete_replica s 2-2 [--vhost <vhost>] <queue> <node>
  Fails: a stream is on one node
  Removing a replica of queue {0} on node {1}...
force_checkpoint q 0-0 since=4.2 [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
  Does nothing: what a queue has stored is the newest state already
  Forcing checkpoint for all matching quorum queues...
reclaim_quorum_memory dq 1-1 since=4.2 [--vhost <vhost>] <quorum queue>
  Does nothing: a queue keeps no log in memory
  Will garbage collect quorum queue {0} ...
restart_stream s 1-1 [--vhost <vhost>] <stream> [--preferred-leader-node <node>]
  Does nothing: a stream runs as long as the broker does
  Restarting stream {0}...
sync_queue c 1-1 until=3.13 [--vhost <vhost>] <queue>
  Does nothing: no queue is mirrored
  Synchronising queue '{0}' in vhost '{vhost}' ...
transfer_leadership q 2-2 since=4.2 [--vhost <vhost>] <queue> <node> [--timeout <timeout>]
  Fails: the one node is the leader already
  Transferring leadership of quorum queue {0} to node {1}...
transfer_leadership s 2-2 since=4.2 [--vhost <vhost>] <stream> <node> [--timeout <timeout>]
  Does nothing: the one node is the leader already
  Transferring leadership of stream {0} to node {1}...

[Users]
add_user c 1-2 until=3.13 <username> <password>
  Creates a user
  Adding user "{0}" ...
add_user c 1-2 since=4.2 <username> [<password>] [<password_hash> --pre-hashed-password]
  Creates a user, with a password or with the hash of one
  Adding user "{0}" ...
authenticate_user c 1-2 <username> <password>
  Tries a user's password
  Authenticating user "{0}" ...
change_password c 1-2 <username> <password>
  Gives a user another password
  Changing password for user "{0}" ...
clear_password c 1-1 <username>
  Lets a user log in with no password any more
  Clearing password for user "{0}" ...
clear_user_limits c 2-2 <username> <limit_type> | all
  Lifts a limit of a user, or all
delete_user c 1-1 <username>
  Deletes a user
  Deleting user "{0}" ...
list_user_limits cd 0-0 [--user <username>] [--global]
  Lists the limits of a user, or of all
list_users cd 0-0 [--no-table-headers] [--timeout <timeout>]
  Lists users and their tags
  Listing users ...
set_user_limits c 2-2 <username> <definition>
  Limits a user's connections and channels
  Setting user limits to "{1}" for user "{0}" ...
set_user_tags c 1-* <username> <tag> [...]
  Gives a user these tags and no others

[Access Control]
clear_permissions c 1-1 [--vhost <vhost>] <username>
  Keeps a user out of a virtual host
  Clearing permissions for user "{0}" in vhost "{vhost}" ...
clear_topic_permissions c 1-2 [--vhost <vhost>] <username> [<exchange>]
  Lifts a user's topic permissions, on an exchange or on all
list_permissions cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the permissions in a virtual host
  Listing permissions for vhost "{vhost}" ...
list_topic_permissions cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the topic permissions in a virtual host
  Listing topic permissions for vhost "{vhost}" ...
list_user_permissions cd 1-1 [--no-table-headers] <username> [--timeout <timeout>]
  Lists what a user may do in each virtual host
  Listing permissions for user "{0}" ...
list_user_topic_permissions cd 1-1 [--no-table-headers] <username> [--timeout <timeout>]
  Lists a user's topic permissions
  Listing topic permissions for user "{0}" ...
list_vhosts cd 0-* [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists virtual hosts
  Listing vhosts ...
set_permissions c 4-4 [--vhost <vhost>] <username> <conf> <write> <read>
  Says what a user may do in a virtual host
  Setting permissions for user "{0}" in vhost "{vhost}" ...
set_permissions_globally c 4-4 since=3.13 <username> <conf> <write> <read>
  Says what a user may do in all virtual hosts
  Setting permissions for user "{0}" in all virtual hosts ...
set_topic_permissions c 4-4 [--vhost <vhost>] <username> <exchange> <write> <read>
  Says which routing keys of an exchange a user may use
  Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...

[Monitoring, observability and health checks]
activate_free_disk_space_monitoring cd 0-0 since=3.13 [--timeout <timeout>]
  Looks at the free disk space again
  [Re-]activating free disk space monitoring on node {node}...
alarms d 0-0 [--timeout <timeout>]
  Lists the alarms of memory and disk
  Asking node {node} to report any known resource alarms ...
check_alarms d 0-0 [--timeout <timeout>]
  Fails while memory or disk is short
  Asking node {node} to report any local resource alarms ...
check_for_quorum_queues_without_an_elected_leader d 1-1 since=4.2 [--vhost <vhost>] [--across-all-vhosts] <pattern>
  Never fails: the one node leads each queue
check_if_any_deprecated_features_are_used cd 0-0 since=3.13 [--timeout <timeout>]
  Fails if deprecated features are in use
  Checking if any deprecated features are used ...
check_if_cluster_has_classic_queue_mirroring_policy dq 0-0 since=3.13 [--timeout <timeout>]
  Fails if a policy asks for mirrors of classic queues
  Checking if cluster has any classic queue mirroring policy ...
check_if_metadata_store_is_initialized d 0-0 since=4.2 [--timeout <timeout>]
  Fails if the broker does not answer; its definitions are read before it does
  Checking if metadata store on node {node} has finished initializing ...
check_if_metadata_store_is_initialized_with_data d 0-0 since=4.2 [--timeout <timeout>]
  Fails if there is no virtual host
  Checking if metadata store on node {node} has finished initializing ...
check_if_new_quorum_queue_replicas_have_finished_initial_sync dq 0-0 since=3.13 [--timeout <timeout>]
  Never fails: there is one node
  Checking if node {node} runs promotable replicas of any queues ...
check_certificate_expiration d 0-0 until=3.13 [--within <period>] [--unit <unit>]
  Fails if a certificate expires soon: within a number of days, weeks, months or years, 4 weeks by default
  Checking certificate expiration on node {node} ...
check_certificate_expiration d 0-0 since=4.2 [--within <period>] [--unit <unit>]
  Fails if a certificate expires soon: within a number of days, weeks, months or years, 4 weeks by default
  Checking certificate expiration for all certificates on node {node} ...
check_if_node_is_mirror_sync_critical dq 0-0 until=3.13 [--timeout <timeout>]
  Never fails: no queue is mirrored
  Checking if node {node} is critical for data safety of any classic mirrored queues ...
check_if_node_is_mirror_sync_critical dq 0-0 since=4.2 [--timeout <timeout>]
  Does nothing: no queue is mirrored
  This command is DEPRECATED and is a no-op. It will be removed in a future version.
check_if_node_is_quorum_critical dq 0-0 until=3.13 [--timeout <timeout>]
  Never fails: there is one node
  Checking if node {node} is critical for quorum of any quorum queues ...
check_if_node_is_quorum_critical dq 0-0 since=4.2 [--timeout <timeout>]
  Never fails: there is one node
  Checking if node {node} is critical for quorum of any queues/streams ...
check_local_alarms d 0-0 until=4.2 [--timeout <timeout>]
  Fails while memory or disk is short
  Asking node {node} to report any local resource alarms ...
check_local_alarms d 0-0 since=4.3 [--timeout <timeout>]
  Does nothing, as in RabbitMQ: check_alarms fails while memory or disk is short
  This command is DEPRECATED and is a no-op. It will be removed in a future version.
check_port_connectivity d 0-0 [--timeout <timeout>]
  Fails if an address that is listened on takes no connection
  Testing TCP connections to all active listeners on node {node} ...
check_port_listener d 1-1 <port> [--timeout <timeout>]
  Fails if a port is not listened on
  Asking node {node} if there's an active listener on port {0} ...
check_protocol_listener d 1-1 <protocol> [--timeout <timeout>]
  Fails if a protocol is not listened for
  Asking node {node} if there's an active listener for protocol {0} ...
check_running d 0-0 [--timeout <timeout>]
  Fails if the broker does not run
  Checking if RabbitMQ is running on node {node} ...
check_virtual_hosts d 0-0 [--timeout <timeout>]
  Fails if the broker does not run; its virtual hosts do with it
  Checking if all vhosts are running on node {node} ...
coordinator_status ds 0-0 since=3.13
  Shows the one node that keeps streams
  Status of stream coordinator ...
deactivate_free_disk_space_monitoring cd 0-0 since=3.13 [--timeout <timeout>]
  Looks at the free disk space no more, until the next start
  Deactivating free disk space monitoring on node {node}...
has_reached_target_cluster_size cdu 0-0 since=4.2 [--timeout <timeout>]
  Never fails: there is one node
  Checking if target cluster size has been reached on node {node} ...
is_booting d 0-0 [--timeout <timeout>]
  Says whether the broker is in its start
  Asking node {node} for its boot status ...
is_running d 0-0 [--timeout <timeout>]
  Says whether the broker runs
  Asking node {node} for its status ...
list_bindings cd 0-* [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists bindings
  Listing bindings for vhost {vhost}...
list_channel_interceptors cd 0-0 since=4.3 [--no-table-headers] [--timeout <timeout>]
  Lists nothing: channels have no interceptors
  Listing channel interceptors ...
list_channels cd 0-* [--no-table-headers] [<column> ...]
  Lists channels
  Listing channels ...
list_connections cd 0-* [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists connections
  Listing connections ...
list_consumers cd 0-* [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists consumers
  Listing consumers in vhost {vhost} ...
list_exchanges cd 0-* [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
  Lists exchanges
  Listing exchanges for vhost {vhost} ...
list_node_auth_attempt_stats cd 0-0 [--by-source]
  Lists how often clients have tried to log in
list_queues cd 0-* [--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]
  Lists queues
list_operator_policies_with_classic_queue_mirroring dq 0-0 since=3.13 [--no-table-headers] [--timeout <timeout>]
  Lists operator policies that ask for mirrors of classic queues
  Listing operator policies with classic queue mirroring ...
list_policies_with_classic_queue_mirroring dq 0-0 since=3.13 [--no-table-headers] [--timeout <timeout>]
  Lists policies that ask for mirrors of classic queues
  Listing policies with classic queue mirroring ...
list_unresponsive_queues cd 0-* [--local] [--queue-timeout <milliseconds>] [<column> ...] [--no-table-headers] [--timeout <timeout>]
  Lists no queue: they all answer, or none
  Listing unresponsive queues for vhost {vhost} ...
listeners d 0-0 [--timeout <timeout>]
  Lists what is listened on
  Asking node {node} to report its protocol listeners ...
memory_breakdown d 0-0 [--unit <unit>] [--timeout <timeout>]
  Shows what takes how much memory, in bytes, mb or gb
  Reporting memory breakdown on node {node}...
metadata_store_status d 0-0 since=3.13
  Shows the one node that keeps definitions
  Status of metadata store on node {node} ...
ping cd 0-0 [--timeout <timeout>]
  Fails if the broker does not answer
quorum_status dq 1-1 since=4.2 [--vhost <vhost>] <queue>
  Shows the one member of a quorum queue
  Status of queue {0} on node {node} ...
report cd 0-0
  Shows everything, for a report of a fault
  Reporting server status of node {node} ...
reset_node_auth_attempt_metrics d 0-0
  Resets the counts of login attempts
  Reset auth attempt metrics on node {node} ...
server_version d 0-0 [--timeout <timeout>]
  Shows the RabbitMQ version whose behaviour the broker's is
  Asking node {node} for its RabbitMQ version...
status cd 0-0 [--unit <unit>] [--timeout <timeout>]
  Shows how the broker does, sizes in bytes, mb or gb
  Status of node {node} ...
stream_status dqs 1-1 [--vhost <vhost>] [--tracking] <stream>
  Shows how far a stream has come
  Status of stream {0} on node {node} ...

[Parameters]
clear_global_parameter c 1-1 <name>
  Removes a parameter of the whole broker
  Clearing global runtime parameter "{0}" ...
clear_parameter c 2-2 [--vhost <vhost>] <component_name> <name>
  Removes a parameter of a virtual host
  Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...
list_global_parameters cd 0-0 [--no-table-headers] [--timeout <timeout>]
  Lists the parameters of the whole broker
  Listing global runtime parameters ...
list_parameters cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the parameters of a virtual host
  Listing runtime parameters for vhost "{vhost}" ...
set_global_parameter c 2-2 <name> <value>
  Sets a parameter of the whole broker to a value in JSON
  Setting global runtime parameter "{0}" to "{1}" ...
set_parameter c 3-3 [--vhost <vhost>] <component_name> <name> <value>
  Sets a parameter of a virtual host to a value in JSON
  Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...

[Shovels]
delete_shovel c 1-1 [--vhost <vhost>] <name>
  Removes a dynamic shovel
  Deleting shovel {0} in vhost {vhost}
restart_shovel c 1-1 <name>
  Restarts a dynamic shovel
  Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}
shovel_status cd 0-0
  Shows how shovels do
  Shovel status on node {node}

[Policies]
clear_operator_policy c 1-1 [--vhost <vhost>] <name>
  Removes an operator policy
  Clearing operator policy "{0}" on vhost "{vhost}" ...
clear_policy c 1-1 [--vhost <vhost>] <name>
  Removes a policy
  Clearing policy "{0}" on vhost "{vhost}" ...
list_operator_policies cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the operator policies of a virtual host
  Listing operator policy overrides for vhost "{vhost}" ...
list_policies cd 0-0 [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
  Lists the policies of a virtual host
  Listing policies for vhost "{vhost}" ...
list_policies_that_match d 1-1 since=3.13 [--object-type <type>] <name>
  Lists the policies that a queue or an exchange could have
set_operator_policy c 3-3 [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
  Sets limits that no policy or argument exceeds
set_policy c 3-3 [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
  Sets arguments of queues and exchanges by their names
set_stream_retention_policy s 2-2 until=3.13 [--vhost <vhost>] <name> <policy>
  Does nothing, as in RabbitMQ: a policy with max-age does it
  Setting retention policy of stream queue {0} to {1} ...

[Virtual hosts]
add_vhost c 1-1 <vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" --default-queue-type <quorum|classic|stream>]
  Creates a virtual host
  Adding vhost "{0}" ...
clear_vhost_limits c 0-0 [--vhost <vhost>]
  Lifts the limits of a virtual host
  Clearing vhost "{vhost}" limits ...
delete_vhost c 1-1 <vhost>
  Deletes a virtual host with everything in it
  Deleting vhost "{0}" ...
disable_vhost_deletion_protection c 1-1 since=4.2 <vhost>
  Lets a virtual host be deleted again
  Removing deletion protection from virtual host "{0}" by updating its metadata...
enable_vhost_deletion_protection c 1-1 since=4.2 <vhost>
  Keeps a virtual host from being deleted
  Protecting virtual host "{0}" from removal by updating its metadata...
list_vhost_limits cd 0-0 [--vhost <vhost>] [--global] [--no-table-headers]
  Lists the limits of a virtual host, or of all
reconcile_vhosts c 0-0 since=3.13 [--timeout <timeout>]
  Does nothing: virtual hosts run as long as the broker does
  Will try to initiate virtual host reconciliation on all reachable cluster nodes...
restart_vhost c 0-0 [--vhost <vhost>] [--timeout <timeout>]
  Does nothing: virtual hosts run as long as the broker does
  Trying to restart vhost '{vhost}' on node '{node}' ...
set_vhost_limits c 1-1 [--vhost <vhost>] <definition>
  Limits a virtual host's connections and queues
  Setting vhost limits to "{0}" for vhost "{vhost}" ...
set_vhost_tags c 1-* <vhost> <tag> [...]
  Gives a virtual host these tags and no others
trace_off c 0-0 [--vhost <vhost>]
  Ends the firehose
  Stopping tracing for vhost "{vhost}" ...
trace_on c 0-0 [--vhost <vhost>]
  Has everything published or delivered go to amq.rabbitmq.trace, too
  Starting tracing for vhost "{vhost}" ...
update_vhost_metadata c 1-1 since=3.13 <vhost> [--description=<description>] [--tags="<tag1>,<tag2>,<...>"] [--default-queue-type=<quorum|classic|stream>] [--protected-from-deletion=<true|false>]
  Changes description, tags, default queue type or protection of a virtual host
  Updating metadata of vhost "{0}" ...

[Configuration and Environment]
certificates d 0-0
  Lists the certificates in use
  Certificates of node {node} ...
environment cd 0-0
  Shows the settings that the broker runs with
  Application environment of node {node} ...
log_location d 0-0 [--all|-a] [--timeout <timeout>]
  Shows where the log goes
  Log file location(s) on node {node} ...
log_tail d 0-0 [--number|-N <number>] [--timeout <timeout>]
  Shows the last lines of the log file
  Last {number} log lines on node {node} ...
resolve_hostname d 1-1 <hostname> [--address-family <ipv4 | ipv6>]
  Resolves a host's name
  Asking node {node} to resolve hostname {0} to {family} addresses...
set_channel_interceptor_priorities c 1-* since=4.3 <interceptor> <priority> [<interceptor> <priority> ...] [--timeout <timeout>]
  Fails: channels have no interceptors
set_cluster_name c 1-1 <name>
  Gives the broker a name for its clients
  Setting cluster name to {0} ...
set_disk_free_limit c 1-2 <disk_limit> | mem_relative <fraction>
  Has publishers wait while less of the disk is free
set_log_level c 1-1 <log_level>
  Logs from this level on
  Setting log level to "{0}" ...
set_vm_memory_high_watermark c 1-2 <fraction> | absolute <value>
  Has publishers wait while more memory is in use

[Definitions]
export_definitions c 1-1 <file_path | "-"> [--format <json | erlang>] [--timeout <timeout>]
  Writes everything but messages to a file in JSON
import_definitions c 0-1 until=3.13 <file_path | "-"> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]
  Makes what a file says
import_definitions c 0-1 since=4.2 <file_path> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]
  Makes what a file says

[Feature flags]
enable_feature_flag c 1-1 <all | feature_flag>
  Does nothing: all are enabled
list_deprecated_features cd 0-* since=3.13 [--used] [<column> ...]
  Lists deprecated features, or those in use
list_feature_flags cd 0-* [<column> ...] [--timeout <timeout>]
  Lists feature flags
  Listing feature flags ...

[Operations]
close_all_connections c 1-1 [--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>
  Closes the connections of a virtual host, or all
close_all_user_connections c 2-2 <username> <explanation>
  Closes the connections of a user
  Closing connections of user {0}, reason: {1}...
close_connection c 2-2 <connection pid> <explanation>
  Closes the connection of a pid
  Closing connection {0}, reason: {1}...
eval c 0-1 <expression>
  Answers node(). and nothing else: there is no Erlang
remove_classic_queue_mirroring_from_policies c 0-0 since=3.13 [--timeout <timeout>]
  Removes the keys that ask for mirrors from all policies
  Will remove keys that enable classic queue mirroring from all regular and operator policies

[Queues]
delete_queue c 1-1 <queue_name> [--if-empty|-e] [--if-unused|-u] [--timeout <timeout>]
  Deletes a queue
purge_queue c 1-1 <queue> [--timeout <timeout>]
  Discards the ready messages of a queue
  Purging queue '{0}' in vhost '{vhost}' ...

[Management plugin]
reset_stats_db c 0-* [--all]
  Begins the samples of the management API again

[Stream plugin]
activate_stream_consumer cs 0-0 since=4.2 --stream <stream> --reference <reference> [--vhost <vhost>]
  Fails: there are no groups
  Activating a consumer in the group ...
add_super_stream s 1-1 until=3.13 <name> [--vhost <vhost>] [--partitions <partitions>] [--routing-keys <routing-keys>]
  Makes an exchange with a stream for each key, or with a number of streams
  Adding a super stream (experimental feature)...
add_super_stream s 1-1 since=4.2 <name> [--vhost <vhost>] [--partitions <partitions>] [--binding-keys <binding-keys>]
  Makes an exchange with a stream for each key, or with a number of streams
  Adding a super stream...
delete_super_stream s 1-1 until=3.13 <name> [--vhost <vhost>]
  Deletes an exchange, and the streams that are bound to it
  Deleting a super stream (experimental feature)...
delete_super_stream s 1-1 since=4.2 <name> [--vhost <vhost>]
  Deletes an exchange, and the streams that are bound to it
  Deleting a super stream...
list_stream_connections cds 0-* [<column> ...]
  Lists nothing: clients speak AMQP
  Listing stream connections ...
list_stream_consumer_groups cds 0-* [--vhost <vhost>] [<column> ...]
  Lists nothing: clients speak AMQP
  Listing stream consumer groups ...
list_stream_consumers cds 0-* [--vhost <vhost>] [<column> ...]
  Lists nothing: clients speak AMQP, and their consumers are in list_consumers
  Listing stream consumers ...
list_stream_group_consumers cds 0-* --stream <stream> --reference <reference> [--vhost <vhost>] [<column> ...]
  Fails: there are no groups
  Listing group consumers ...
list_stream_publishers cds 0-* [--vhost <vhost>] [<column> ...]
  Lists nothing: clients speak AMQP
  Listing stream publishers ...
list_stream_tracking s 1-1 <stream> [--all | --offset | --writer] [--vhost <vhost>]
  Lists nothing: clients keep their offsets
  Listing tracking information for stream {0} ...
reset_offset s 0-0 since=4.2 --stream <stream> --reference <reference> [--vhost <vhost>]
  Fails: clients keep their offsets
  Resetting stored offset ...

[Other]
hash_password c 0-1 since=3.13 <cleartext_password> [--hashing-algorithm <algorithm>]
  Shows a password's hash, for definitions

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

[Upgrade]
await_online_quorum_plus_one u 0-0 until=3.13 [--timeout <timeout>]
  Does nothing: there is one node
  Will wait for a quorum + 1 of nodes to be online for all quorum queues for 120 seconds...
await_online_quorum_plus_one u 0-0 since=4.2 [--timeout <timeout>]
  Does nothing: there is one node
  Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for 120 seconds...
await_online_synchronized_mirror u 0-0 until=3.13 [--timeout <timeout>]
  Does nothing: no queue is mirrored
  Will wait for a synchronised mirror be online for all classic mirrored queues for 120 seconds...
post_upgrade u 0-0
  Does nothing: there is one node
  Executing post upgrade tasks...

[Deprecated]
hipe_compile c 1-1 until=3.13 <directory>
  Does nothing, as in RabbitMQ
rename_cluster_node c 0-* since=4.2 <oldnode1> <newnode1> [oldnode2] [newnode2] ...
  Does nothing, as in RabbitMQ
node_health_check cd 0-0 until=3.13 [--timeout <timeout>]
  Fails if the broker does not answer, or memory or disk is short
node_health_check cd 0-0 since=4.2 [--timeout <timeout>]
  Does nothing, as in RabbitMQ
"""


SERIES = tuple(PERSONALITIES)


class VerbLine(NamedTuple):
    """Help and number of arguments of a verb, in the series that have it in this form. `most` None: any number."""

    name: str
    group: str
    tools: frozenset[str]
    least: int
    most: int | None
    series: tuple[str, ...]
    usage: str
    about: str
    banner: str


class SeriesVerbs:
    """The verbs of a series."""

    def __init__(self, lines: Iterable[VerbLine]) -> None:
        self._by_tool = {(tool, line.name): line for line in lines for tool in line.tools}

    def find(self, tool: str, name: str) -> VerbLine | None:
        """Return a verb of a program; None if it has none of this name."""
        return self._by_tool.get((tool, name))

    def of(self, tool: str) -> list[VerbLine]:
        """Return the verbs of a program, in their order."""
        return [line for (program, _), line in self._by_tool.items() if program == tool]


def read_verbs(text: str) -> Iterator[VerbLine]:
    """Yield the verbs in their order."""
    for block in text.strip().split("\n\n"):
        heading, *lines = block.split("\n")
        starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield _read_verb(heading.strip("[]"), *lines[start:end])


_FIRST_LINE = re.compile(
    r"(?P<name>\S+) (?P<tools>\S+) (?P<least>\d)-(?P<most>\S)(?: since=(?P<since>\S+))?(?: until=(?P<until>\S+))?"
    r"(?: (?P<usage>.*))?"
)


def _read_verb(group: str, first: str, about: str, banner: str = "") -> VerbLine:
    found = _FIRST_LINE.fullmatch(first)
    assert found is not None, first
    since, until = (
        SERIES.index(found[name] or default) for name, default in (("since", SERIES[0]), ("until", SERIES[-1]))
    )
    return VerbLine(
        found["name"],
        group,
        frozenset(TOOLS[letter] for letter in found["tools"]),
        int(found["least"]),
        None if found["most"] == "*" else int(found["most"]),
        SERIES[since : until + 1],
        found["usage"] or "",
        about.strip(),
        banner.strip(),
    )


VERB_LINES = tuple(read_verbs(LINES))


@cache
def verbs_of(series: str) -> SeriesVerbs:
    """Return the verbs of a series."""
    return SeriesVerbs(line for line in VERB_LINES if series in line.series)
