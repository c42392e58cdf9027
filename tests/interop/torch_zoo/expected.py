"""Lists what the launcher must report of each program of the zoo."""
import typing


class Program(typing.NamedTuple):
    file: str
    name: str
    # The exit code is None if the launcher never terminates the program.
    code: typing.Optional[int] = 0
    # These exit codes are correct, too. PyTorch 2.13 sometimes aborts a process that ends without destroying its group.
    or_codes: tuple = ()
    # The flight recorder of PyTorch 2.12 and newer records Gloo. There, this is the verdict, the launcher names these
    # ranks as culprits, and its report contains these words.
    verdict: str = ""
    culprits: tuple = ()
    says: str = ""
    # With older versions the launcher reads stacks. None means the same verdict; H07 and H08 name no rank.
    older_verdict: typing.Optional[str] = None
    ranks: int = 2
    # The program needs this version of PyTorch or a newer one.
    since: tuple = (1, 13)
    # The quick programs are run by torch_recorder_test.py.
    quick: bool = False
    # A healthy program gets this limit, in seconds, and need not call collectives as often as that.
    hang_timeout: typing.Optional[int] = None
    # A rank is slow for so long that a note of the launcher is correct, although nothing hangs.
    may_be_noted: bool = False


# FSDP2 of 2.6 needs an accelerator: streams of the CPU record no events there.
FSDP2 = (2, 13)


def hangs(name, verdict="H03", culprits=(1,), says="", code=124, **more) -> Program:
    return Program("hanging.py", name, code, verdict=verdict, culprits=culprits, says=says, **more)


def fails(name, code, culprits=(1,), says="", **more) -> Program:
    return Program("failing.py", name, code, culprits=culprits, says=says,
                   **{"older_verdict": "", "or_codes": (134,) if code == 1 else (), **more})


def healthy(name, **more) -> Program:
    return Program("healthy.py", name, **more)


HANGING = [
    hangs("spins", says="rank 1 has not called all_reduce f32[1024] (#21 of world), in which rank 0 waits", quick=True),
    hangs("holds_the_interpreter", says="rank 1 has not called all_reduce f32[1024] (#21 of world)", quick=True),
    hangs("sleeps", says="rank 1 has not called broadcast f32[1024] (#21 of world), in which rank 0 waits"),
    hangs("stops", "H02", code=None, older_verdict="H02"),
    hangs("sleeps_in_a_step_of_ddp", says="rank 1 has not called all_reduce f32[72] (", quick=True),
    hangs("leaves_out_a_step_of_ddp", "H04", (0, 1)),
    hangs("leaves_out_a_forward_of_fsdp2", "H04", (0, 1), since=FSDP2, quick=True),
    hangs("calls_a_barrier_against_an_all_reduce", "H04", (0, 1), quick=True),
    hangs("broadcasts_objects_from_two_roots", "H05", (0, 1), older_verdict="H07"),
    hangs("skips_in_a_subgroup", "H03", (0,), "rank 0 has not called all_reduce f32[1024] (#2 of pair), in which rank 1 waits",
          since=(2, 4), quick=True),
    hangs("makes_a_group_on_one_rank", culprits=(0,)),
    hangs("uses_two_groups_in_a_circle", "H06", (0, 1), quick=True, older_verdict="H07"),
    hangs("uses_the_wrong_dimension_of_a_mesh", "H06", (0, 1, 2, 3), ranks=4, since=(2, 2), older_verdict="H07"),
    hangs("sleeps_in_the_second_of_two_worlds", "H03", (3,), ranks=4),
    hangs("has_a_stage_that_does_not_send", says="rank 1 is in no collective; ", ranks=3),
    hangs("receives_on_both_ranks", "H06", (0, 1), "ranks 0, 1 wait for each other"),
    hangs("polls_for_a_message", "H03"),
    hangs("misses_a_monitored_barrier", says="rank 1 is in no collective; rank 0 waits in monitored_barrier"),
    hangs("never_makes_its_process_group", says="rank 1 is in no collective; rank 0 waits in init_process_group"),
    hangs("misses_a_barrier_by_the_store", "H08"),
    hangs("has_a_data_loader_whose_worker_hangs", says="rank 1, its process "),
    hangs("waits_for_a_thread_at_its_end", "H08"),
]
FAILING = [
    fails("raises", 1, quick=True),
    fails("has_another_shape", 134, (0, 1), "H05"),
    # Rank 1 ends with 0, and rank 0 fails because of it. The exit code depends on which of the two the launcher sees
    # first.
    fails("returns_early", 124, verdict="H01", or_codes=(1, 134)),
    fails("lets_a_collective_time_out", 1, verdict="H03"),
]
HEALTHY = [
    healthy("computes_alone"),
    healthy("sleeps_for_a_while", may_be_noted=True),
    healthy("waits_for_a_slow_first_batch", may_be_noted=True),
    healthy("compiles_for_long", since=(2, 0), may_be_noted=True),
    healthy("waits_long_in_a_monitored_barrier"),
    healthy("ends_late"),
    healthy("loads_by_fork"),
    healthy("has_children", quick=True),
    healthy("has_a_child_with_its_own_process_group"),
    healthy("has_pools_of_processes"),
    healthy("spawns_processes"),
    healthy("joins", quick=True),
    healthy("finds_unused_parameters"),
    healthy("trains_with_fsdp2", since=FSDP2),
    healthy("trains_on_a_mesh", ranks=4, since=(2, 2)),
    healthy("has_a_pipeline_schedule", since=(2, 5)),
    healthy("saves_a_checkpoint_asynchronously", since=(2, 3)),
    healthy("overlaps", quick=True),
    healthy("polls_its_work"),
    healthy("has_all_kinds", quick=True),
    healthy("reduces_big_tensors"),
    healthy("uses_groups_alone"),
    healthy("makes_groups_again", quick=True),
    healthy("has_many_groups"),
    # Older versions find the addresses of the first group in the store, and fail or hang.
    healthy("starts_again_after_destroy", since=(2, 13)),
    healthy("trains_two_models_in_two_worlds", ranks=4),
    healthy("swaps_its_ranks"),
    healthy("serves_parameters_by_messages", ranks=3, hang_timeout=8, may_be_noted=True, quick=True),
    healthy("waits_late_for_what_it_began", hang_timeout=8, may_be_noted=True),
    healthy("waits_for_children_between_two_groups", may_be_noted=True),
    healthy("has_threads", quick=True),
    healthy("listens_in_a_thread"),
    healthy("handles_signals"),
    healthy("names_the_store_itself"),
    healthy("leaves_at_once", quick=True),
    healthy("forgets_to_destroy_its_process_group", or_codes=(134,)),
    healthy("never_waits_for_the_last", quick=True),
]
PROGRAMS = HANGING + FAILING + HEALTHY
