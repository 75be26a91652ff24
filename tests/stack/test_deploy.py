"""What docs/deploy has: units that systemd understands, a compose file that holds together, roles that are ours."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from prover import config
from prover.stack.passwords import password
from prover.stack.roles import DAEMON, GROUP_OF, OWNER, SITE
from tests.postgres import ROOT, Database

FOLDER = ROOT / "docs" / "deploy"
UNITS = ("cuzk-prover.service", "cuzk-web.service")


def unit(name: str) -> dict[str, str]:
    """The section [Service]; a key that stands twice is an error."""
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string((FOLDER / name).read_text())
    return dict(parsed["Service"])


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_watched_hardened_and_not_root(name: str) -> None:
    service = unit(name)
    assert service["Type"] == "notify" and service["NotifyAccess"] == "main" and service["WatchdogSec"]
    assert service["User"] not in ("", "root") and service["CapabilityBoundingSet"] == ""
    assert service["NoNewPrivileges"] == "yes" and service["ProtectSystem"] == "strict"
    assert service["KillMode"] == "mixed", "the heartbeat process ends with its prover, not before"
    assert service["EnvironmentFile"].startswith("/etc/cuzk/"), "no secret on a command line"


@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_the_unit(name: str, tmp_path: Path) -> None:
    """Where it is installed; its program is replaced by one that is here."""
    text = re.sub(r"/opt/cuzk/.venv/bin/\w+", "/bin/true", (FOLDER / name).read_text())
    (tmp_path / name).write_text(text)
    if program := shutil.which("systemd-analyze"):
        done = subprocess.run([program, "verify", str(tmp_path / name)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_stop_waits_for_the_drain() -> None:
    minutes = int(unit("cuzk-prover.service")["TimeoutStopSec"].removesuffix("min"))
    assert 60 * minutes > config.load(None, {}).daemon.drain_timeout


def test_the_settings_to_begin_with_are_valid() -> None:
    assert config.load(FOLDER / "cuzk.toml", {}).gpus.platform == "cpu"


def test_the_compose_file_holds_together() -> None:
    """What Compose would refuse, or would start in the wrong order; and no secret is in it."""
    compose: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services = compose["services"]
    assert set(compose) == {"name", "x-cuzk", "services", "volumes"}
    for name, service in services.items():
        assert re.fullmatch(r"cuzk|postgres:\d+\.\d+", service["image"]), "pinned"
        for other, how in service.get("depends_on", {}).items():
            wanted = "healthcheck" if how["condition"] == "service_healthy" else None
            assert other in services and (wanted is None or wanted in services[other]), (name, other)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or source.startswith("${") or (ROOT / source).exists(), volume
        secrets = [text for key, text in service.get("environment", {}).items() if re.search("PASS|SECRET|URL", key)]
        assert all("${" in text for text in secrets)
    wanted = set(re.findall(r"\$\{(\w+)", (FOLDER / "compose.yaml").read_text()))
    offered = set(re.findall(r"^(\w+)=", (FOLDER / "env.example").read_text(), re.MULTILINE))
    assert wanted == offered
    assert (ROOT / services["web"]["build"]["dockerfile"]).exists()


@pytest.mark.postgres
def test_roles_are_those_of_the_stack(database: Database) -> None:
    """Run twice: what is there already stays."""
    server = database.server
    passwords = {name: password(server.secrets, f"cuzk_{name}") for name in ("owner", "daemon", "site")}
    words = [f"--set={name}={value}" for name, value in {"database": database.name, **passwords}.items()]
    command = [str(server.binaries.folder / "psql"), server.url(), *words, f"--file={FOLDER / 'roles.sql'}"]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    with server.connect() as connection:
        members = connection.execute(
            "SELECT member::regrole::text, roleid::regrole::text FROM pg_auth_members"
            " WHERE member IN ('cuzk_daemon'::regrole, 'cuzk_site'::regrole)"
        ).fetchall()
    assert dict(members) == GROUP_OF
    for role in (OWNER, DAEMON, SITE):
        with database.connect(role) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)
