"""Lists the results of the zoo's programs. Programs that are not in the table are healthy, and cause nothing but
notes."""
import dataclasses
import pathlib


@dataclasses.dataclass
class Hang:
    code: str | None  # None if a rank fails and nothing hangs
    culprits: list[int]
    # The outcome is "certain", "unknown" (after the shortened limit), "users_limit" (--hang-timeout is given),
    # "reported" (the job continues), or "failed" (a rank detects the fault itself).
    outcome: str = "unknown"
    ranks: int = 3


# Those of zoo_ends.cpp.
OPERATIONS = """all_reduce broadcast reduce gather scatter all_gather reduce_scatter all_to_all barrier send""".split()
NOT_CALLED = Hang("DDP-H03", [1])
HANGING = dict.fromkeys("""
    locks_a_mutex_twice pauses is_the_parent_of_a_vfork has_a_watchdog_thread_and_hangs leaves_the_thirtieth_group_out
    is_asked_for_by_ranks_that_poll hangs_after_slow_steps""".split(), NOT_CALLED)
HANGING |= {
    "leaves_a_new_group_out": Hang("DDP-H08", []),
    "leaves_a_monitored_barrier_out": Hang("DDP-H08", []),
    "does_not_come_to_init": Hang("DDP-H08", []),
    "hangs_beside_helpers_that_wait": Hang("DDP-H03", [2]),
    "leaves_a_batch_out": NOT_CALLED,
    "hangs_within_a_batch": NOT_CALLED,
    "is_a_grid_of_two_by_two": Hang("DDP-H03", [3], ranks=4),
    "hangs_beside_groups_that_go_on": Hang("DDP-H03", [3], ranks=4),
    "sleeps_with_a_collective_under_way": Hang("DDP-H03", [1]),
    "receives_in_vain_beside_transfers": Hang("DDP-H03", [3], ranks=4),
    "is_a_pipeline_whose_last_stage_hangs": Hang("DDP-H03", [3], ranks=4),
    "loops_for_ever": Hang("DDP-H03", [1], "users_limit"),
    "prints_for_ever": Hang("DDP-H03", [1], "reported"),
    "is_stopped_for_ever": Hang("DDP-H02", [1], "reported"),
    "is_dead_under_a_debugger": Hang(None, [1], "failed"),
    "ends_early": Hang("DDP-H01", [1], "failed"),
    **{f"ends_without_{operation}": Hang("DDP-H01", [1], "failed") for operation in OPERATIONS},
    "ends_before_a_new_group": Hang("DDP-H01", [1], "failed"),
    "ends_before_init": Hang("DDP-H01", [1], "certain"),
    "receives_from_a_rank_that_has_ended": Hang("DDP-H01", [1], "failed"),
    "leaves_a_collective_out": Hang("DDP-H04", [1], "failed"),
    "calls_another_count": Hang("DDP-H05", [1], "failed"),
    "goes_on_past_a_sub_groups_call": Hang("DDP-H06", [0, 1], "certain"),
    "uses_two_groups_in_different_orders": Hang("DDP-H06", [0, 1], "certain"),
    "receives_in_a_circle": Hang("DDP-H06", [0, 1, 2], "certain"),
    "receives_what_is_not_sent_before_a_collective": Hang("DDP-H06", [0, 1], "certain"),
    "loses_the_network": Hang("DDP-H07", []),
    "loses_the_network_and_computes": Hang("DDP-H07", []),
}

# Programs of each kind of result, which the suite runs. The nightly list has all of them, and replay_test.py decides the
# recorded traces of most of them in every run.
DOZEN = """
    locks_a_mutex_twice loops_for_ever is_stopped_for_ever ends_without_all_reduce calls_another_count
    goes_on_past_a_sub_groups_call leaves_a_new_group_out loses_the_network
    ends_one_by_one_after_all_reduce is_stopped_for_a_while has_a_child_that_computes shell_polls""".split()

# Marks a trace of the second of two nodes.
OF_SECOND_NODE = "@second_node"
# In these programs, the network between the ranks is slow or is lost. Only root may run them.
OWN_NETWORK = {"has_a_slow_network", "loses_the_network", "loses_the_network_and_computes"}


def launched(name: str, launcher: pathlib.Path, options: list, program: list, retries: int = 40) -> list:
    """Returns the command that runs this program of the zoo under ddplaunch."""
    if name not in OWN_NETWORK:
        return [launcher, *options, *program]
    # The kernel itself would give up the connections after 15 minutes, so it is set to wait for an hour.
    prepare = f"ip link set lo up && echo {retries} > /proc/sys/net/ipv4/tcp_retries2"
    return ["unshare", "--net", "sh", "-c", prepare + ' && exec "$@"', "sh", launcher, "--backend=gloo", *options, *program]
