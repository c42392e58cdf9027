#!/usr/bin/env python3
"""node_names_test.py BIN_DIR [WORD]: tests the names and addresses through which nodes meet. Skipped without network
namespaces."""
import time

from node_rig import BIN, Hosts, Job, all_well, run_tests, skip

SHOW = "echo $GROUP_RANK: $RANK of $WORLD_SIZE at $MASTER_ADDR $MASTER_PORT if=$GLOO_SOCKET_IFNAME"
PORT = 29500


def training(hosts: Hosts, *meet: str) -> Job:
    return Job(hosts, "--nproc-per-node=1", BIN / "train_charlm", "--steps", "3", "--checkpoint", hosts.path("checkpoint"),
               meet=["--nnodes=2", *meet])


def shown(hosts: Hosts, endpoint: str) -> list[str]:
    job = Job(hosts, "--nproc-per-node=1", "--tag=", "--no-collapse", "sh", "-c", SHOW,
              meet=["--nnodes=2", f"--rdzv-endpoint={endpoint}"])
    ends = job.start(1).start(2).ends()
    all_well(ends)
    return [out.strip() for _, out, _ in ends.values()]


def at(address: str) -> list[str]:
    return [f"{node}: {node} of 2 at {address} {PORT} if=eth0" for node in (0, 1)]


def trains(hosts: Hosts, *meet: str) -> None:
    all_well(training(hosts, *meet).start(1).start(2).ends())


def a_name_may_be_known_late(hosts: Hosts) -> None:
    """The name is not known at first, either on a node that looks it up, or also on the node that it belongs to. The
    nodes meet with and without given node ranks."""
    numbers = {True: ["--node-rank=0", "--node-rank=1"], False: ["--nproc-per-node=1"] * 2}
    for unknown_to, is_static in ([2], False), ([1, 2], False), ([1, 2], True):
        for number in unknown_to:
            hosts.name_hosts(number, known=False)
        meet = ["--nnodes=2", "--master-addr=host1", f"--master-port={PORT}"] if is_static else \
               ["--nnodes=2", f"--rdzv-endpoint=host1:{PORT}"]
        job = Job(hosts, "--nproc-per-node=1", "--tag=", "--no-collapse", "sh", "-c", SHOW, meet=meet)
        job.start(1, numbers[is_static][0]).start(2, numbers[is_static][1])
        time.sleep(2)
        assert all(launcher.poll() is None for launcher in job.launchers.values()), job.ends()
        for number in unknown_to:
            hosts.name_hosts(number)
        ends = job.ends()
        all_well(ends)
        assert [out.strip() for _, out, _ in ends.values()] == at("10.77.0.1"), (unknown_to, is_static, ends)


def an_ipv6_address_works_like_others(hosts: Hosts) -> None:
    assert shown(hosts, f"[fd00::1]:{PORT}") == at("fd00::1")
    trains(hosts, f"--rdzv-endpoint=[fd00::1]:{PORT}")


def a_host_may_call_itself_by_a_loopback_address(hosts: Hosts) -> None:
    """This is so on Debian, where the hosts file gives a node's own name the address 127.0.1.1."""
    for number in (1, 2):
        hosts.name_hosts(number, f"127.0.1.1 host{number}")
    try:
        assert shown(hosts, f"host1:{PORT}") == at("10.77.0.1")
        trains(hosts, f"--rdzv-endpoint=host1:{PORT}")
        job = training(hosts, "--master-addr=host1")
        all_well(job.start(2, "--node-rank=1").start(1, "--node-rank=0").ends())
    finally:
        for number in (1, 2):
            hosts.name_hosts(number)


if __name__ == "__main__":
    with Hosts(2) as rig:
        if not rig.are_apart:
            skip("needs network namespaces")
        run_tests(rig, [a_name_may_be_known_late, a_host_may_call_itself_by_a_loopback_address,
                        *([an_ipv6_address_works_like_others] if rig.has_ipv6() else [])])
