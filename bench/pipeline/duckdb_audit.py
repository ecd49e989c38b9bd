"""The audit of pipeline/audit/verdicts.py as SQL for DuckDB, over an export of the event log.

It is here to be compared with, like harness/event_logs/plain_audit.py, and needs `pip install duckdb`. `python -m
bench.pipeline.duckdb_audit DIRECTORY` prints how many copies have which verdict, and how many have violations.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pipeline.export import MANIFEST

NEVER = 1 << 62

STEPS = {
    "told": """
        select distinct on (node, boot, seq)
            node, boot, seq, boot::bigint << 40 | seq as moment, kind, coalesce(vhost, '') as vhost,
            coalesce(queue, '') as queue, position, msg_id, redelivered, persistent, channel, detail
        from read_parquet($files)
    """,
    "lives": f"""
        with found as (
            select node, boot, max(seq) as last, max(moment) filter (kind = 'stop') as stopped,
                bool_or(detail ->> '$.complete' = 'true') filter (kind = 'stop') as complete,
                max(moment) filter (kind = 'snapshot') as snapshot
            from told group by node, boot
        ), known as (
            select node, (detail ->> '$.previous_boot')::int as boot,
                max((detail ->> '$.previous_known')::bigint) as known
            from told where kind = 'boot' group by all
        ), ordered as (
            select found.*, coalesce(known, 0) as known, lead(boot) over (partition by node order by boot) as next
            from found left join known using (node, boot)
        )
        select *, if(stopped is null and next is not null, boot::bigint << 40 | known, {NEVER}) as horizon from ordered
    """,
    "gaps": """
        select node, boot::bigint << 40 | last as moment from lives
        where stopped is null and next is not null and (known > last or (known = 0 and next > boot + 1))
        union all select node, (boot + 1)::bigint << 40 from lives where next > boot + 1
        union all select node, boot::bigint << 40 | before from (
            select node, boot, seq, lag(seq, 1, 0) over (partition by node, boot order by seq) as before from told
        ) where seq > before + 1
    """,
    "records": """
        select node, snapshot as moment, boot, true as start, snapshot from lives where snapshot is not null
        union all select node, stopped, boot, false, snapshot from lives where complete
    """,
    "publishes": """
        select node, msg_id, bool_or(kind = 'confirm') as confirmed,
            coalesce(bool_or(channel = 0) filter (kind = 'publish'), false) as own
        from told where kind in ('publish', 'confirm') group by all
    """,
    "copies": f"""
        select node, vhost, queue, position, arg_min(msg_id, moment) filter (kind = 'route') as number,
            min(moment) filter (kind = 'route') as routed,
            min(moment) filter (kind = 'route' and moment <= horizon) as routed_for_good,
            bool_or(persistent) filter (kind = 'route') as kept,
            max(moment) filter (kind = 'deliver') as delivered,
            count(*) filter (kind = 'deliver' and not redelivered) as delivered_as_new,
            count(distinct boot) filter (kind = 'deliver') as boots_delivered,
            min(moment) filter (ends and moment <= horizon) as ending, max(moment) filter (ends) as ended,
            max(moment) as last, arg_max(kind, moment) as last_kind, max(moment) filter (kind = 'queued') as queued
        from (
            select told.*, horizon, kind in ('ack', 'reject', 'expire', 'drop', 'release') as ends
            from told join lives using (node, boot)
            where kind in ('ack', 'reject', 'expire', 'drop', 'release', 'route', 'deliver', 'requeue', 'queued')
                and position >= {1 << 40}
        ) group by node, vhost, queue, position
    """,
    "sweeps": """
        select node, vhost, queue, moment, (detail ->> '$.below')::bigint as below,
            from_json(detail -> '$.kept', '["bigint"]') as spared
        from told where kind in ('purge', 'delete')
    """,
    "swept": """
        select node, vhost, queue, position, min(moment) as sweep
        from copies join sweeps using (node, vhost, queue)
        where ending is null and position < below and last < moment and not list_contains(spared, position) group by all
    """,
    "moves": """
        select moved.node, moved.vhost, moved.queue, moved.number as before, moved.position, moved.routed,
            moved.routed_for_good
        from copies as moved join copies as first on moved.node = first.node and moved.vhost = first.vhost
            and moved.queue = first.queue and moved.number = first.position
        where moved.number <> moved.position and moved.routed is not null
    """,
    "moved_on": """
        select node, vhost, queue, before as position, max(routed) as moved_on, min(routed_for_good) as move
        from moves group by all
    """,
    "first_places": """
        with recursive chain as (
            select node, vhost, queue, position, before from moves
            union all select chain.node, chain.vhost, chain.queue, chain.position, moves.before
            from chain join moves on chain.node = moves.node and chain.vhost = moves.vhost
                and chain.queue = moves.queue and chain.before = moves.position
        )
        select node, vhost, queue, position, min(before) as first from chain group by all
    """,
    "unordered": """
        select distinct node, vhost, queue, position from (
            select node, vhost, queue, position, max(position) over (
                partition by node, vhost, queue, boot order by seq rows between unbounded preceding and 1 preceding
            ) as highest
            from told semi join (
                select node, vhost, queue from told where kind = 'declare' and detail ->> '$.max_priority' = '0'
                    and detail ->> '$.type' in ('classic', 'quorum')
            ) as ordered using (node, vhost, queue)
            where kind = 'deliver' and not redelivered
        ) where position < highest
    """,
    "ends": """
        select copies.*, coalesce(ending, sweep, move) as whole_end, ending is null and sweep is not null as by_sweep,
            greatest(ended, moved_on) as any_end, coalesce(first, number) as first_number, first is not null as moved
        from copies left join swept using (node, vhost, queue, position)
            left join moved_on using (node, vhost, queue, position)
            left join first_places using (node, vhost, queue, position)
    """,
    "absences": """
        select node, vhost, queue, position, min(moment) as absent from ends join records using (node)
        where moment > last and (boot > last >> 40 or (boot = last >> 40 and not start
            and (last_kind <> 'queued' or last <= snapshot)))
        group by all
    """,
    "judged": """
        select ends.* exclude (whole_end), absent,
            case when by_sweep and whole_end > absent then null else whole_end end as finish,
            exists (select 1 from gaps where gaps.node = ends.node and moment >= last and moment < absent) as in_doubt,
            coalesce(confirmed, false) as confirmed, coalesce(own, false) as own, unordered.position is not null as late
        from ends left join absences using (node, vhost, queue, position)
            left join publishes on publishes.node = ends.node and publishes.msg_id = first_number
            left join unordered on unordered.node = ends.node and unordered.vhost = ends.vhost
                and unordered.queue = ends.queue and unordered.position = ends.position
    """,
}
VERDICTS = """
    select case
            when finish is not null or (any_end is not null and (absent is not null or any_end >= last)) then 'settled'
            when absent is null then 'queued'
            when not kept then 'not kept'
            when in_doubt then 'unknown'
            when routed is null or if(own or moved, routed_for_good is not null, confirmed) then 'lost'
            else 'not confirmed'
        end as verdict,
        count(*) as copies,
        count(*) filter (
            delivered > finish or queued >> 40 > finish >> 40 or delivered_as_new > boots_delivered or late
        ) as violations
    from judged group by verdict
"""


def audit(export: Path) -> tuple[dict[str, int], int]:
    """How many copies have which verdict, and how many have violations."""
    import duckdb

    files = [str(export / each["file"]) for each in json.loads((export / MANIFEST).read_bytes())["files"]]
    with duckdb.connect() as database:
        for name, query in STEPS.items():
            given = {"files": files} if "$files" in query else None
            database.execute(f"create temp table {name} as {query}", given)
        rows = database.execute(VERDICTS).fetchall()
    return {verdict: copies for verdict, copies, _ in rows}, sum(violations for _, _, violations in rows)


if __name__ == "__main__":
    verdicts, violations = audit(Path(sys.argv[1]))
    print(json.dumps({"verdicts": verdicts, "violations": violations}))
