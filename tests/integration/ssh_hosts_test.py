#!/usr/bin/env python3
"""ssh_hosts_test.py BIN_DIR: tests jobs that are started on other nodes over ssh, by a real sshd on each. The nodes
are network namespaces. The computer's own ssh is neither used nor changed. Skipped without sshd, and without the
right to make namespaces (root)."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from node_rig import BIN, Hosts, kill_all

LAUNCHER = BIN / "ddplaunch"
CONTROLLER = 4  # number of the host on which jobs are started


class Lab:
    """Manages three hosts with an sshd each, and a fourth host that can reach them."""

    def __init__(self, hosts: Hosts, folder: pathlib.Path):
        self.hosts = hosts
        self.folder = folder
        self.addresses = [f"10.77.0.{number}" for number in (1, 2, 3)]
        self.config = folder / "ssh_config"
        self.missing = folder / "not on the third host"
        self.missing.mkdir()
        self.servers: list[subprocess.Popen] = []
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        key = " ".join((folder / "host_key.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text("".join(f"{address} {key}\n" for address in self.addresses))
        self.config.write_text(f"""Host third
    HostName {self.addresses[2]}
Host *
    User {os.environ.get("USER", "root")}
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    ConnectTimeout 60
""")
        # Bash reads ~/.bashrc if sshd started it at level 1. That file belongs to the user of the computer, and what it
        # does (pyenv takes a lock) must neither slow the tests nor be cut off by them.
        (folder / "sshd_config").write_text(f"""HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
SetEnv SHLVL=1
""")
        for number in (1, 2, 3):
            private = f"mount -t tmpfs none '{self.missing}'; " if number == 3 else ""
            script = f"hostname host{number}; {private}exec /usr/sbin/sshd -D -e -f {folder}/sshd_config"
            self.servers.append(subprocess.Popen([*hosts.inside(number), "unshare", "--uts", "--mount", "sh", "-c", script],
                                                 stdout=subprocess.DEVNULL, stderr=open(folder / f"sshd{number}.log", "w")))
        for address in self.addresses:
            end = time.monotonic() + 60
            while subprocess.run([*self.ssh(), address, "true"], capture_output=True).returncode != 0:
                assert time.monotonic() < end, (folder / "sshd1.log").read_text()

    def ssh(self) -> list[str]:
        return [*self.hosts.inside(CONTROLLER), "ssh", "-F", str(self.config)]

    def start(self, hosts: str, *words: object, ssh: str = "", folder: object = "/", **environment: str) -> subprocess.Popen:
        """Starts the launcher on the fourth host, which starts the others."""
        command = [*self.hosts.inside(CONTROLLER), LAUNCHER, f"--hosts={hosts}",
                   f"--ssh={ssh or f'ssh -F {self.config}'}", *words]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="surrogateescape", cwd=folder, env={**os.environ, "PWD": str(folder), **environment})

    def end(self, launcher: subprocess.Popen, within: float = 60) -> tuple[int, str, str]:
        try:
            out, err = launcher.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            launcher.kill()
            out, err = launcher.communicate()
            raise AssertionError(f"it does not end: {out} {err}") from None
        self.nothing_survives(within)
        return launcher.returncode, out, err

    def run(self, hosts: str, *words: object, **more: object) -> tuple[int, str, str]:
        return self.end(self.start(hosts, *words, **more))

    def processes(self, number: int) -> set[int]:
        name = self.hosts.namespace(number)
        pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
        return {int(pid) for pid in pids} - {server.pid for server in self.servers}

    def commands(self, number: int) -> dict[int, str]:
        result = {}
        for pid in self.processes(number):
            try:
                result[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass
        return result

    def nothing_survives(self, within: float) -> None:
        end = time.monotonic() + within
        while left := {number: self.commands(number) for number in (1, 2, 3, CONTROLLER) if self.processes(number)}:
            assert time.monotonic() < end, f"still there after {within} s: {left}"
            time.sleep(0.02)

    def close(self) -> None:
        for number in (1, 2, 3, CONTROLLER):  # this loop kills the remains of a failed check
            kill_all(self.processes(number), signal.SIGKILL)
        for server in self.servers:
            server.kill()
            server.wait()


def until_lines(launcher: subprocess.Popen, count: int) -> list[str]:
    lines = [launcher.stdout.readline() for _ in range(count)]
    assert all(lines), (lines, launcher.communicate())
    return lines


def ranks_and_outputs_of_three_hosts_are_right(lab: Lab) -> None:
    a, b, c = lab.addresses
    script = 'echo "$GROUP_RANK $RANK/$WORLD_SIZE $(hostname) $MASTER_ADDR"; echo "error of $RANK" >&2'
    code, out, err = lab.run(f"{a}:1,{b}:2,{c}", "--no-collapse", "sh", "-c", script)
    assert code == 0, (code, out, err)
    assert sorted(out.splitlines()) == [f"[0] 0 0/4 host1 {a}", f"[1] 1 1/4 host2 {a}", f"[2] 1 2/4 host2 {a}",
                                        f"[3] 2 3/4 host3 {a}"], out
    assert all(f"[{rank}] error of {rank}\n" in err for rank in range(4)), err
    assert re.search(rf"ddplaunch: \[{re.escape(b)}\] ", err), err


def hosts_come_from_a_file_and_an_ssh_alias(lab: Lab) -> None:
    hostfile = lab.folder / "hosts file"
    hostfile.write_text(f"# ours\n{lab.addresses[1]} slots=2\nthird:1\n")
    command = [*lab.hosts.inside(CONTROLLER), LAUNCHER, "--hostfile", hostfile, f"--ssh=ssh -F {lab.config}", "-q",
               "--no-collapse", "sh", "-c", "echo $RANK $(hostname)"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["[0] 0 host2", "[1] 1 host2", "[2] 2 host3"], done


def one_host_passes_bytes_on_as_they_are(lab: Lab) -> None:
    code, out, err = lab.run(lab.addresses[0], "-q", "printf", "%s", "no end of line")
    assert (code, out, err) == (0, "no end of line", ""), (code, out, err)


def the_benchmark_runs_on_hosts(lab: Lab) -> None:
    a, b, _ = lab.addresses
    command = [*lab.hosts.inside(CONTROLLER), LAUNCHER, "bench", f"--hosts={a}:1,{b}:1", f"--ssh=ssh -F {lab.config}",
               "all_reduce", "--sizes", "4K", "--seconds", "0.1", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert any(row.get("bytes") == 4096 for row in rows), done.stdout


def the_doctor_and_a_check_run_on_hosts(lab: Lab) -> None:
    hosts = f"--hosts={lab.addresses[0]},{lab.addresses[1]}"
    command = [*lab.hosts.inside(CONTROLLER), LAUNCHER, "doctor", hosts, f"--ssh=ssh -F {lab.config}", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    report = json.loads(done.stdout)
    assert done.returncode == 0 and [node["host"] for node in report["nodes"]] == ["host1", "host2"], done
    assert {"check": "reach", "grade": "ok"}.items() <= report["between"][0].items(), report
    code, out, err = lab.run(f"{lab.addresses[0]},{lab.addresses[1]}", "--check", "--nproc-per-node=1", "sh", "-c", "echo $RANK/$WORLD_SIZE")
    assert code == 0 and sorted(out.splitlines()) == ["[0] 0/2", "[1] 1/2"], (code, out, err)


def a_failure_on_another_host_ends_the_job(lab: Lab) -> None:
    a, b, c = lab.addresses
    code, out, err = lab.run(f"{a},{b},{c}", "sh", "-c", '[ $RANK = 2 ] && exit 7; exec sleep 1000')
    assert code == 7 and f"[{c}] error: rank 2" in err and "exit code 7" in err, (code, out, err)
    code, out, err = lab.run(f"{a},{b}", "sh", "-c", "exit 255")
    assert code == 255 and "connection" not in err, (code, err)


def an_unreachable_host_is_reported(lab: Lab) -> None:
    a, b, _ = lab.addresses
    code, out, err = lab.run(f"{a},10.77.0.99,{b}", "sh", "-c", "echo begun")
    assert code == 125 and out == "", (code, out, err)
    assert "ddplaunch: [10.77.0.99] ssh: connect to host 10.77.0.99" in err, err
    assert f"10.77.0.99 cannot be reached over ssh; no worker was started on any host. This must work without a password: ssh -F {lab.config} " \
           "-o BatchMode=yes 10.77.0.99 true" in err, err


def a_host_that_refuses_the_login(lab: Lab) -> None:
    a, b, _ = lab.addresses
    wrong = lab.folder / "wrong_config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", lab.folder / "other_key"], check=True)
    wrong.write_text(f"Host {b}\n    IdentityFile {lab.folder}/other_key\n    IdentitiesOnly yes\n    User root\n"
                     f"    UserKnownHostsFile {lab.folder}/known_hosts\n" + lab.config.read_text().replace("Host *", f"Host {a}"))
    code, out, err = lab.run(f"{a},{b}", "sh", "-c", "echo begun", ssh=f"ssh -F {wrong}")
    assert code == 125 and out == "" and f"[{b}] " in err and "Permission denied" in err, (code, out, err)


def a_missing_launcher_is_reported(lab: Lab) -> None:
    a, b, _ = lab.addresses
    code, out, err = lab.run(f"{a},{b}", "--remote-launcher=/no where/ddplaunch", "sh", "-c", "echo begun")
    assert code == 125 and out == "", (code, out, err)
    assert "'/no where/ddplaunch' cannot be executed there; no worker was started on any host" in err and "--remote-launcher=PATH" in err, err
    code, out, err = lab.run(f"{a},{b}", "--remote-launcher=/bin/echo", "sh", "-c", "echo begun")
    assert code == 125 and "ssh exited before its launcher answered (exit code 0)" in err, (code, err)


def nothing_begins_unless_all_hosts_can(lab: Lab) -> None:
    a, _, c = lab.addresses
    marks = lab.folder / "marks"
    code, out, err = lab.run(f"{a},{c}", "touch", marks, folder=lab.missing)
    assert code == 0 and marks.exists(), (code, out, err)  # the folder exists; on the third host, another one is mounted over it
    marks.unlink()
    inside = lab.missing / "deeper"
    inside.mkdir(exist_ok=True)
    code, out, err = lab.run(f"{a},{c}", "touch", marks, folder=inside)
    assert code == 2 and f"[{c}] error: cannot change into the working directory {inside} on host {c}: No such file" in err, (code, err)
    assert "no worker was started on any host" in err and not marks.exists(), err
    only_first = inside / "program"
    only_first.write_text("#!/bin/sh\ntouch " + str(marks) + "\n")
    only_first.chmod(0o755)
    code, out, err = lab.run(f"{a},{c}", only_first)
    assert code == 127 and f"[{c}] " in err and not marks.exists(), (code, err)


def a_signal_here_ends_all_hosts(lab: Lab) -> None:
    a, b, _ = lab.addresses
    for number in (signal.SIGTERM, signal.SIGINT):
        launcher = lab.start(f"{a},{b}", "sh", "-c", f"trap 'echo told; exit 0' {number.name[3:]}; echo begun; while :; do sleep 0.05; done")
        until_lines(launcher, 1)
        time.sleep(0.3)
        launcher.send_signal(number)
        code, out, err = lab.end(launcher)
        assert code == -number and "told" in out and f"terminated by {number.name}" in err, (code, out, err)


def a_second_signal_does_not_wait(lab: Lab) -> None:
    a, b, _ = lab.addresses
    launcher = lab.start(f"{a},{b}", "--grace=1000", "--no-collapse", "sh", "-c", "trap '' TERM; echo begun; while :; do sleep 0.05; done")
    until_lines(launcher, 2)
    while launcher.poll() is None:  # it takes two requests, or more if two come too close together
        launcher.terminate()
        time.sleep(0.8)
    code, _, err = lab.end(launcher)
    assert code == -signal.SIGTERM, (code, err)


def other_signals_reach_the_workers(lab: Lab) -> None:
    a, b, _ = lab.addresses
    launcher = lab.start(f"{a},{b}", "--no-collapse", "sh", "-c", "trap 'echo usr1; exit 0' USR1; echo begun; while :; do sleep 0.05; done")
    until_lines(launcher, 2)
    launcher.send_signal(signal.SIGUSR1)
    code, out, err = lab.end(launcher)
    assert code == 0 and sorted(out.splitlines()) == ["[0] usr1", "[1] usr1"], (code, out, err)


def killing_the_controller_ends_all_hosts(lab: Lab) -> None:
    a, b, c = lab.addresses
    launcher = lab.start(f"{a},{b},{c}", "--no-collapse", f"--event-log={lab.folder}/log", "sh", "-c", "echo begun; exec sleep 1000")
    until_lines(launcher, 3)
    launcher.kill()
    lab.end(launcher)
    assert "the connection to the launcher that started the job is lost" in (lab.folder / "log").read_text()


def a_connection_that_dies_ends_all(lab: Lab) -> None:
    a, b, c = lab.addresses
    launcher = lab.start(f"{a},{b},{c}", "--no-collapse", "sh", "-c", "echo begun; exec sleep 1000")
    until_lines(launcher, 3)
    sessions = [pid for pid, command in lab.commands(2).items() if command.startswith("sshd: ")]
    assert sessions, lab.commands(2)
    kill_all(sessions, signal.SIGKILL)
    code, out, err = lab.end(launcher)
    assert code == 128 + signal.SIGHUP, (code, out, err)
    assert f"ddplaunch: error: the connection to {b} is lost (ssh: exit code 255)" in err, err
    assert "node host2: the connection to the launcher that started the job is lost" in err, err


def variables_are_forwarded(lab: Lab) -> None:
    script = 'echo "$NCCL_DEBUG|$DDP_X|$MY_OWN|$MY_LIST|$MY_VALUE|$CUDA_VISIBLE_DEVICES|$PET_GRACE|$OTHER|$DDP_AUTH_TOKEN"'
    code, out, err = lab.run(
        lab.addresses[0], "-q", "--forward-env=MY_OWN,MY_L*", "--forward-env=MY_VALUE=a b", "sh", "-c", script, NCCL_DEBUG="INFO",
        DDP_X="$(x)\n'", MY_OWN="own", MY_LIST="list", CUDA_VISIBLE_DEVICES="7", PET_GRACE="3", OTHER="other")
    assert code == 0 and out == "INFO|$(x)\n'|own|list|a b||||\n", (code, out, err)
    code, _, err = lab.run(lab.addresses[0], "--forward-env=NOT_SET", "true")
    assert code == 2 and "--forward-env=NOT_SET: there is no such variable here" in err, err


def arguments_arrive_unchanged(lab: Lab) -> None:
    words = ["a b", "", "'", '"', "$HOME", "`id`", "two\nlines", "\\", "*", "--grace=1", "gr\u00fc\u00dfe", "\udcff\udcfe", ";true", "\t", "!x"]
    code, out, err = lab.run(lab.addresses[0], "-q", "--tag=$$(x)' \"", sys.executable, "-c",
                             "import sys; print(ascii(sys.argv[1:]))", *words)
    assert code == 0 and out == "$(x)' \"" + ascii(words) + "\n", (code, out, err)


def the_token_is_on_no_command_line(lab: Lab) -> None:
    a, b, _ = lab.addresses
    token = "0123456789abcdef-secret"
    launcher = lab.start(f"{a},{b}", "--no-collapse", "sh", "-c", "echo begun; exec sleep 1000", DDP_AUTH_TOKEN=token)
    until_lines(launcher, 2)
    for number in (1, 2, CONTROLLER):
        for pid, command in lab.commands(number).items():
            assert token not in command, command
            assert token.encode() not in pathlib.Path(f"/proc/{pid}/environ").read_bytes(), (pid, command)
    assert any(command.endswith(" on-host ") for command in lab.commands(1).values()), lab.commands(1)
    launcher.terminate()
    _, _, err = lab.end(launcher)
    assert "no token" not in err, err


def shared_connections_are_left_alone(lab: Lab) -> None:
    """An ssh master in the background has inherited the launcher's pipes. It belongs to the user and must keep
    running."""
    config = lab.folder / "shared_config"
    config.write_text(f"ControlMaster auto\nControlPath {lab.folder}/%h.master\nControlPersist 60\n" + lab.config.read_text())
    launcher = lab.start(lab.addresses[0], "-q", "echo", "through a master", ssh=f"ssh -F {config}")
    out = launcher.stdout.readline()
    assert launcher.wait(timeout=20) == 0 and out == "through a master\n", out
    stop = [*lab.hosts.inside(CONTROLLER), "ssh", "-F", str(config), "-O", "exit", lab.addresses[0]]
    assert subprocess.run(stop, capture_output=True).returncode == 0, "the master was not there any more"
    launcher.stdout.close()
    launcher.stderr.close()
    lab.nothing_survives(60)


def much_output_reaches_a_slow_reader(lab: Lab) -> None:
    a, b, _ = lab.addresses
    launcher = lab.start(f"{a},{b}", "--lossless", "--no-collapse", "-q", "seq", "1", "200000")
    time.sleep(2)  # the output is not read; the launcher keeps a bounded backlog
    size = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{launcher.pid}/status").read_text())[1])
    assert size < 64 << 10, f"{size} KiB"
    code, out, err = lab.end(launcher)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 400_000, (code, len(lines), err)
    for rank in (0, 1):
        own = [line[4:] for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [str(i) for i in range(1, 200_001)], (rank, own[:3], len(own))


def a_reader_that_goes_ends_the_job_if_asked(lab: Lab) -> None:
    a, b, _ = lab.addresses
    launcher = lab.start(f"{a},{b}", "--on-sigpipe=end", "yes")
    until_lines(launcher, 1)
    launcher.stdout.close()
    assert launcher.wait(60) == -signal.SIGPIPE
    launcher.stderr.close()
    lab.nothing_survives(60)


def a_start_may_be_ended_at_any_moment(lab: Lab) -> None:
    hosts = ",".join(lab.addresses)
    for step in range(12):
        launcher = lab.start(hosts, "sleep", "1000")
        time.sleep(0.1 * step)
        number = (signal.SIGTERM, signal.SIGKILL)[step % 2]
        launcher.send_signal(number)
        code, _, err = lab.end(launcher)
        assert code == -number, (step, code, err)


def contradicting_options_are_refused(lab: Lab) -> None:
    for words, text in [(["--nnodes=3"], "--nnodes is another number"), (["--node-rank=0"], "--node-rank"), (["--standalone"], "--standalone"),
                        (["--hostfile=x"], "--hosts and --hostfile cannot be combined"), (["--stdin=0"], "--stdin")]:
        code, _, err = lab.run("a,b", *words, "true")
        assert code == 2 and text in err, (words, err)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "0", "SLURM_PROCID": "0",
             "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    code, _, err = lab.run("a,b", "true", **slurm)
    assert code == 2 and "--hosts cannot be used within Slurm" in err, err


def main() -> int:
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", "")) is None or shutil.which("ssh") is None:
        print("skipped: there is no sshd (package openssh-server)")
        return 77
    hosts = Hosts(CONTROLLER)
    try:
        if not hosts.are_apart:
            print("skipped: no network namespaces")
            return 77
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            lab = Lab(hosts, pathlib.Path(folder))
            try:
                for check in CHECKS:
                    began = time.monotonic()
                    check(lab)
                    print(f"ok: {check.__name__.replace('_', ' ')} ({time.monotonic() - began:.1f} s)", flush=True)
            finally:
                lab.close()
    finally:
        hosts.remove()
    return 0


CHECKS = [ranks_and_outputs_of_three_hosts_are_right, hosts_come_from_a_file_and_an_ssh_alias,
          one_host_passes_bytes_on_as_they_are, the_benchmark_runs_on_hosts,
          the_doctor_and_a_check_run_on_hosts, a_failure_on_another_host_ends_the_job,
          an_unreachable_host_is_reported, a_host_that_refuses_the_login, a_missing_launcher_is_reported,
          nothing_begins_unless_all_hosts_can, a_signal_here_ends_all_hosts, a_second_signal_does_not_wait,
          other_signals_reach_the_workers, killing_the_controller_ends_all_hosts, a_connection_that_dies_ends_all,
          variables_are_forwarded, arguments_arrive_unchanged, the_token_is_on_no_command_line,
          shared_connections_are_left_alone, much_output_reaches_a_slow_reader,
          a_reader_that_goes_ends_the_job_if_asked, a_start_may_be_ended_at_any_moment,
          contradicting_options_are_refused]

if __name__ == "__main__":
    sys.exit(main())
