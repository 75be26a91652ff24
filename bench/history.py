"""The history over a long past: 100,000 jobs and 3 million transitions of two provers, made in the database itself.

`python -m bench history [--jobs N] [--keep FOLDER] [--explain]`. What is measured is the server's time for a page: from
the request to the whole answer, in this process, over a connection with the web's rights; the database is warm. FOLDER
keeps the server between runs, so that the data is made once; `--explain` prints the plans of what takes over 5 ms.
Wanted, of 95 in 100: list and job page under 50 ms, hourly statistics under 200 ms, a seek of the replay under 300 ms.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from prover.stack.postgres import EmbeddedPostgres
from prover.stack.roles import OWNER, SITE

DAYS = 30
SESSIONS = 20  # of each prover
TIMES = 40  # that each page is asked for
NAME = "cuzk_bench"
SLOW_MS = 5.0  # of a statement whose plan is printed
EXPLAIN = "--explain" in sys.argv

#: two provers with four workers each, restarted some times; the site's own session
FLEET = f"""
INSERT INTO session (id, prover, state, state_at, times, detail, moved_by, moved_seq, host, machine, version, head_seq,
                     started_at, ended_at)
SELECT md5('session' || p || '.' || s)::uuid, 'prover-' || p, CASE WHEN s < {SESSIONS} THEN 'stopped' ELSE 'online' END,
       start, jsonb_build_object('online', to_us(start)),
       jsonb_build_object('prover', 'prover-' || p, 'host', 'host-' || p),
       md5('session' || p || '.' || s)::uuid, 1, 'host-' || p, '', '1', 0, start,
       CASE WHEN s < {SESSIONS} THEN start + %(days)s * interval '1 day' / {SESSIONS} END
FROM generate_series(1, 2) AS p, generate_series(1, {SESSIONS}) AS s,
     LATERAL (SELECT %(start)s + (s - 1) * %(days)s * interval '1 day' / {SESSIONS} AS start) AS a;
INSERT INTO session (id, prover, state, state_at, times, detail, moved_seq, host, machine, version, head_seq,
                     started_at)
VALUES (site_session(), 'site', 'online', %(start)s, '{{}}', '{{}}', 0, '', '', '', 0, %(start)s)
ON CONFLICT (id) DO UPDATE SET started_at = %(start)s;
INSERT INTO device (id, session_id, ordinal, name, platform, state, state_at, times, detail, moved_by, moved_seq)
SELECT 'prover-' || p || '/' || d, md5('session' || p || '.{SESSIONS}')::uuid, d, 'GPU', 'gpu', 'online', %(start)s,
       '{{}}', '{{}}', NULL, 0
FROM generate_series(1, 2) AS p, generate_series(0, 1) AS d;
INSERT INTO worker (id, session_id, device_id, prover, ordinal, sub_id, display_id, epoch, state, state_at, times,
                    detail, moved_by, moved_seq, admin, admin_times, admin_detail, admin_moved_seq)
SELECT 'prover-' || p || '/' || w / 2 || '/' || w %% 2, md5('session' || p || '.{SESSIONS}')::uuid,
       'prover-' || p || '/' || w / 2, 'prover-' || p, w / 2, w %% 2, w, 1, 'online', %(start)s,
       jsonb_build_object('online', to_us(now())), jsonb_build_object('display', w, 'ordinal', w / 2, 'sub', w %% 2),
       md5('session' || p || '.{SESSIONS}')::uuid, 1,
       'enabled', '{{}}', '{{}}', 0
FROM generate_series(1, 2) AS p, generate_series(0, 3) AS w"""

#: one job in 97 fails; a job begins when the one before it is half done
JOBS = f"""
INSERT INTO job (id, number, request_id, request_digest, kind, sector_size, priority, partition_index, partitions,
                 partitions_done, miner_id, sector_number, error_code, error_message, submitted_by, submitted_at,
                 started_at, ended_at, state, state_at, times, detail, moved_by, moved_seq, lease_epoch, losses,
                 timings, session_id)
SELECT md5('job' || n)::uuid, n, kind || '-1000-' || n, '', kind, 2048, 2, 0, partitions, partitions,
       1000 + n %% 7, CASE WHEN kind = 'snap-update' THEN n END, CASE WHEN bad THEN error END,
       CASE WHEN bad THEN 'what went wrong with it' END, 'olga', at, at + interval '1 s', ends,
       CASE WHEN bad THEN 'failed' ELSE 'done' END, ends,
       jsonb_build_object('queued', to_us(at), 'loading', to_us(at) + 1000000, 'running', to_us(at) + 1200000,
                          'assembling', to_us(ends) - 20000, 'verifying', to_us(ends) - 10000,
                          CASE WHEN bad THEN 'failed' ELSE 'done' END, to_us(ends)),
       jsonb_build_object('request_id', kind || '-1000-' || n, 'kind', kind, 'number', n, 'partitions', partitions,
                          'priority', 2, 'partition_index', 0, 'submitted_by', 'olga'),
       session, 1, 1, 0, '{{}}', session
FROM generate_series(1, %(jobs)s) AS n, LATERAL (
    SELECT %(start)s + n * %(days)s * interval '1 day' / (%(jobs)s + 1) AS at, n %% 97 = 3 AS bad,
           (ARRAY['window-post', 'winning-post', 'snap-update', 'porep-c2'])[1 + n %% 4] AS kind,
           (ARRAY[3, 1, 4, 3])[1 + n %% 4] AS partitions,
           (ARRAY['device_memory', 'wrong_challenge', 'prover_lost', 'unsatisfied_constraint'])[1 + n %% 4] AS error,
           md5('session' || 1 + n %% 2 || '.' || 1 + (n::bigint - 1) * {SESSIONS} / %(jobs)s)::uuid AS session) AS a,
    LATERAL (SELECT at + interval '4 s' + (n * 7919 %% 1000) * interval '12 ms' AS ends) AS b"""

ATTEMPTS = """
INSERT INTO attempt (id, job_id, partition, attempt_no, session_id, worker_id, state, state_at, times, detail, moved_by,
                     moved_seq)
SELECT id || ':' || p || ':1', id, p, 1, session_id, 'prover-' || 1 + number % 2 || '/' || p % 2 || '/' || number % 2,
       CASE WHEN error_code IS NOT NULL AND p = 0 THEN 'failed' ELSE 'done' END, from_us(us + 9 * step),
       jsonb_build_object(
           'pending', us, 'reserved', us + step, 'synthesizing', us + 2 * step, 'ready', us + 3 * step,
           'claimed', us + 4 * step, 'device_wait', us + 5 * step, 'device', us + 6 * step, 'finalizing', us + 8 * step,
           CASE WHEN error_code IS NOT NULL AND p = 0 THEN 'failed' ELSE 'done' END, us + 9 * step),
       '{"bytes": 325058560}', session_id, 1
FROM job, generate_series(0, partitions - 1) AS p,
     LATERAL (SELECT to_us(started_at) + 200000 + p * 50000 AS us,
                     (to_us(ended_at) - to_us(started_at)) / 13 AS step) AS a"""

TRANSITIONS = """
INSERT INTO transition (session_id, seq, at, mono_ns, entity, entity_id, old, new, job, partition, attempt_no, worker,
                        reason, detail)
SELECT session_id, row_number() OVER (PARTITION BY session_id ORDER BY us, entity_id, new), from_us(us), us * 1000,
       entity, entity_id, '', new, job, partition, attempt_no, worker, NULL, detail
FROM (
    SELECT CASE WHEN key = 'queued' THEN site_session() ELSE session_id END AS session_id, value::bigint AS us,
           'job' AS entity, id::text AS entity_id, key AS new, id AS job, NULL::integer AS partition,
           NULL::integer AS attempt_no, NULL AS worker,
           CASE key WHEN 'queued' THEN detail WHEN state THEN jsonb_build_object('kind', kind)
           ELSE '{}' END AS detail
    FROM job, jsonb_each_text(times)
    UNION ALL
    SELECT session_id, value::bigint, 'attempt', id, key, job_id, partition, attempt_no,
           CASE WHEN key IN ('pending', 'reserved', 'synthesizing', 'ready') THEN NULL ELSE worker_id END,
           CASE key WHEN 'reserved' THEN detail ELSE '{}' END
    FROM attempt, jsonb_each_text(times)
    UNION ALL
    SELECT s.id, to_us(s.started_at), 'session', s.id::text, 'online', NULL, NULL, NULL, NULL,
           s.detail FROM session s WHERE s.prover <> 'site'
    UNION ALL
    SELECT s.id, to_us(s.started_at) + 1, 'worker', w.id, 'online', NULL, NULL, NULL, w.id, w.detail
    FROM session s JOIN worker w ON w.prover = s.prover
    UNION ALL
    SELECT s.id, to_us(s.ended_at), 'session', s.id::text, 'stopped', NULL, NULL, NULL, NULL, '{}'
    FROM session s WHERE s.prover <> 'site' AND s.ended_at IS NOT NULL
) AS told ORDER BY us;
UPDATE session SET head_seq = (SELECT coalesce(max(seq), 0) FROM transition WHERE session_id = session.id);
INSERT INTO counter (kind, state, count) SELECT kind, state, count(*) FROM job GROUP BY kind, state
ON CONFLICT (kind, state) DO UPDATE SET count = excluded.count"""

#: a minute apart in the past, a second apart in the last hour
SAMPLES = """INSERT INTO sample (session_id, at, gauges)
SELECT id, at, '{"rss_bytes": 3221225472, "memory_total_bytes": 17179869184, "queue_depth": 3, "synth_active": 2}'
FROM session, generate_series(started_at, coalesce(ended_at, now()), interval '1 minute') AS at WHERE prover <> 'site'
ON CONFLICT DO NOTHING"""


def make(owner: psycopg.Connection[Any], jobs: int) -> None:
    """Fill an empty database."""
    with owner.transaction():
        owner.execute("SET LOCAL work_mem = '256MB'; SET LOCAL maintenance_work_mem = '256MB'")
        owner.execute("DROP INDEX job_search_words")
        ((start,),) = owner.execute(f"SELECT now() - interval '{DAYS} days'").fetchall()
        values = {"start": start, "days": DAYS, "jobs": jobs}
        for name, sql in (("fleet", FLEET), ("jobs", JOBS), ("attempts", ATTEMPTS), ("log", TRANSITIONS),
                          ("samples", SAMPLES)):  # fmt: skip
            began = time.monotonic()
            for statement in sql.split(";\n"):
                owner.execute(statement, values if "%(" in statement else None)  # type: ignore[arg-type]
            print(f"  {name} made in {time.monotonic() - began:.0f} s", flush=True)
        owner.execute("CREATE INDEX job_search_words ON job_search USING gin (words)")
    owner.execute("VACUUM ANALYZE")


@contextmanager
def filled(keep: Path | None, jobs: int) -> Iterator[str]:
    """The URL of a database with so many jobs, as the site's login."""
    from tests.postgres import Database, migrate, open_folder, prepare

    with open_folder() as fresh:
        folder = keep or fresh
        folder.mkdir(exist_ok=True)
        os.chmod(folder, 0o711)
        with EmbeddedPostgres(folder, durable=False) as server:
            with server.connect() as connection:
                there = connection.execute("SELECT FROM pg_database WHERE datname = %s", [NAME]).fetchone()
            database = Database(server, NAME) if there else prepare(server, NAME)
            migrate(database.url(OWNER))
            with database.connect(OWNER) as owner:
                if owner.execute("SELECT FROM job LIMIT 1").fetchone() is None:
                    make(owner, jobs)
                counts = owner.execute("SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM attempt),"
                                       " (SELECT count(*) FROM transition)").fetchone()  # fmt: skip
                assert counts is not None
                print("{:,} jobs, {:,} attempts, {:,} transitions".format(*counts), flush=True)
            yield database.url(SITE)


def timed(ask: Callable[[], Any]) -> list[float]:
    """Milliseconds of each of TIMES calls; the first, which finds nothing warm, is not counted."""
    ask()
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        ask()
        took.append((time.perf_counter() - began) * 1000)
    return took


def say(name: str, took: list[float], most: float) -> bool:
    """A line of the table."""
    usual = sorted(took)[int(0.95 * (len(took) - 1))]
    good = usual <= most
    print(f"{name:52} median {statistics.median(took):6.1f} ms  p95 {usual:6.1f}  max {max(took):6.1f}"
          f"  wanted {most:.0f}{'' if good else '  MISSED'}", flush=True)  # fmt: skip
    return good


def main(arguments: list[str] | None = None) -> int:
    """0 when every figure is met."""
    parser = argparse.ArgumentParser(prog="bench history")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--explain", action="store_true")
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    with filled(given.keep, given.jobs) as url:
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "cuzk_web.settings"}
        os.environ.setdefault("CUZK_SECRET_KEY", "of this bench")
        import django

        django.setup()
        return 0 if all([*pages(), *replays(), *sums()]) else 1


def viewer() -> Callable[[str], Callable[[], Any]]:
    """What asks for a page, as somebody who may see it."""
    from django.contrib.auth.models import Group, User
    from django.test import Client

    user, _ = User.objects.get_or_create(username="bench")
    user.groups.add(Group.objects.get(name="viewer"))
    browser = Client(headers={"host": "localhost"})
    browser.force_login(user)

    def ask(path: str) -> Callable[[], Any]:
        def get() -> None:
            answer = browser.get(path)
            assert answer.status_code == 200, (path, answer.status_code, answer.content[:300])

        return get

    return explained(ask) if EXPLAIN else ask


def explained(ask: Callable[[str], Callable[[], Any]]) -> Callable[[str], Callable[[], Any]]:
    """The same, after the plans of a page's statements that took longer than SLOW_MS were printed."""
    from django.db import connection

    def plan(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().startswith("SELECT"):
            with connection.cursor() as cursor:
                cursor.cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params)
                lines = [line for (line,) in cursor.cursor.fetchall()]
            if float(lines[-1].split()[2]) > SLOW_MS:
                print(f"\n{sql[:300]}", *lines, sep="\n    ", flush=True)
        return execute(sql, params, many, context)

    def asking(path: str) -> Callable[[], Any]:
        get = ask(path)
        with connection.execute_wrapper(plan):
            get()
        return get

    return asking


def pages() -> Iterator[bool]:
    """The pages of the history."""
    from django.db import connection

    from cuzk_web.fleet.models import Job

    ask = viewer()
    total = Job.objects.latest("number").number

    middle, failed = Job.objects.get(number=total // 2), Job.objects.filter(state="failed").latest("number")
    for query in ("", f"before={total // 2}", f"before={total // 2}&kind=snap-update&state=failed", "state=open",
                  "q=device_memory", f"q=porep-c2-1000-{total // 2 // 4 * 4 + 3}", "miner=f01003", "error=prover_lost",
                  f"sector={total // 2 // 4 * 4 + 2}", "worker=prover-1/0/0", "worker=nobody/0/0", "prover=prover-2",
                  "prover=nobody", f"since={middle.submitted_at:%Y-%m-%dT%H:%M}&worker=prover-2/1/1"):  # fmt: skip
        yield say(f"/jobs/?{query}"[:52], timed(ask(f"/jobs/?{query}")), 50)
    for job in (middle, failed):
        yield say(f"/jobs/{job.number} ({job.partitions} partitions)", timed(ask(f"/jobs/{job.id}/")), 50)
    connection.close()


def replays() -> Iterator[bool]:
    """Checkpoints, and seeks to moments all over the past."""
    from django.db import connection

    from cuzk_web.fleet.models import Transition
    from cuzk_web.history import checkpoints, replay
    from cuzk_web.history.models import Checkpoint

    began, stored = time.monotonic(), checkpoints.extend()
    rows = stored * checkpoints.EVERY
    if stored:
        print(f"{stored} checkpoints of {rows:,} rows in {time.monotonic() - began:.0f} s")
    size = sum(map(len, Checkpoint.objects.values_list("state", flat=True)))
    print(f"{Checkpoint.objects.count()} checkpoints, {size / 2**20:.1f} MiB")
    first = Transition.objects.order_by("at")[0].at
    last = Transition.objects.order_by("-at")[0].at
    pick = random.Random(7)
    took = timed(lambda: replay.at(first + pick.random() * (last - first)).to_json())
    yield say("replay: seek to any moment", took, 300)
    took = timed(lambda: replay.at(last).to_json())
    yield say("replay: seek to the last", took, 300)
    connection.close()


def sums() -> Iterator[bool]:
    """Statistics, from sums and without."""
    from django.db import connection

    from cuzk_web.fleet.models import Job
    from cuzk_web.history import rollups

    began, made = time.monotonic(), rollups.roll_up(every=True)
    print(f"{made} sums of hours and days made in {time.monotonic() - began:.1f} s")
    yield say("sums: looking for what has come", timed(lambda: rollups.roll_up()), 200)
    yield say("sums: looking at everything", timed(lambda: rollups.roll_up(every=True)), 1000)
    ask = viewer()
    last = Job.objects.latest("number").submitted_at
    day, fortnight, month = (f"{last - timedelta(days=days):%Y-%m-%dT%H:%M}" for days in (1, 14, 30))
    until = f"{last:%Y-%m-%dT%H:%M}"
    half = f"{last - timedelta(days=15):%Y-%m-%dT%H:%M}"
    noon = f"{last - timedelta(hours=12):%Y-%m-%dT%H:%M}"
    hour = f"{last - timedelta(hours=1):%Y-%m-%dT%H:%M}"
    for path in (f"?since={day}", f"?since={fortnight}", f"?by=day&since={month}", f"failures/?since={month}",
                 f"workers/?since={hour}&until={until}", f"workers/?since={noon}&until={until}&prover=prover-1",
                 f"compare/?a_since={day}&a_until={until}&b_since={half}&b_until={day}"):  # fmt: skip
        yield say(f"/statistics/{path}"[:52], timed(ask(f"/statistics/{path}")), 200)
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
