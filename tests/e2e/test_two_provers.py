"""Two provers on one database: what one held when it was killed, or stopped beyond its lease, the other does."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.postgres import Database

from .running import Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.postgres, pytest.mark.acceptance, pytest.mark.timeout(900)]
LOST_WITHIN_S, RUNNING_WITHIN_S = 15.0, 30.0
LOST = "SELECT count(*) FROM session WHERE prover = 'alpha' AND state = 'lost'"
TAKEN_OVER = """SELECT count(*) FROM attempt a JOIN session s ON s.id = a.session_id
    WHERE s.prover = 'beta' AND a.job_id = %s AND a.times ? 'synthesizing'"""
ONLINE = "SELECT count(*) FROM session WHERE prover = 'beta' AND state = 'online'"


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_the_other_takes_over(database: Database, window: Shared, tmp_path: Path, blow: signal.Signals) -> None:
    request = window.sample("window-post", tmp_path, "--sectors", 3)
    one = "gpus.cpu_devices=1"

    def counted(query: str, *values: str) -> int:
        with database.connect() as connection:
            ((count,),) = connection.execute(query, values).fetchall()
        return int(count)

    with proving(database, window, tmp_path / "alpha", one, gates=("start-P0",)) as alpha:
        job = submit(window, database, request)
        await_true(lambda: alpha.reached("start-P0"))
        with proving(database, window, tmp_path / "beta", one, "daemon.prover=beta") as beta:
            await_true(lambda: counted(ONLINE) == 1)
            time.sleep(13)  # no prover is marked lost before somebody has watched for a whole lease
            alpha.process.send_signal(blow)
            began = time.monotonic()
            await_true(lambda: counted(LOST) == 1)
            assert time.monotonic() - began < LOST_WITHIN_S
            await_true(lambda: counted(TAKEN_OVER, job) >= 1)
            took = time.monotonic() - began
            assert took < RUNNING_WITHIN_S
            print(f"{blow.name}: running elsewhere after {took:.1f} s")
            await_true(lambda: counted("SELECT count(*) FROM job WHERE id = %s AND state = 'done'", job) == 1)
            if blow is signal.SIGSTOP:
                alpha.process.send_signal(signal.SIGCONT)
                alpha.open("start-P0")
                await_true(lambda: counted("SELECT count(*) FROM session WHERE prover = 'alpha'") == 2)
                assert alpha.stop() == 0, alpha.log
                assert counted("SELECT count(*) FROM anomaly WHERE code = 'stale_session'") > 0
            else:
                alpha.process.wait()
            assert beta.stop() == 0, beta.log
    assert counted("SELECT count(*) FROM transition WHERE entity = 'job' AND job = %s AND new = 'done'", job) == 1
    assert counted("SELECT sum(count) FROM counter") == 1
    assert refused(window, request, delivered(database, job)) == []
