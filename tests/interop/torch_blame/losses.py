"""Programs in which it matters what the other ranks do, where the culprit fails, or how slowly it exits."""
import os
import sys
import time

from common import SLOW_EXIT, TrainerError, program


@program(2, 0, "AssertionError: loss is nan")
def assertion_of_rank_0(rank):
    for step in range(3):
        assert not (rank.fails and step == 2), "loss is nan"  # fails
        rank.step()


@program(2, 1, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x3 and 4x1)")
def shapes_in_torch(rank):
    layer = rank.torch.nn.Linear(3 if not rank.fails else 4, 1)
    layer(rank.torch.ones(1, 3))  # fails
    rank.steps()


@program(2, 1, "RuntimeError: bad gradient")
def hook_in_backward(rank):
    def hook(_):
        if rank.fails:
            raise RuntimeError("bad gradient")  # fails

    weight = rank.torch.ones(3, requires_grad=True)
    weight.register_hook(hook)
    weight.sum().backward()
    rank.steps()


@program(3, 1, "ValueError: loss exploded")
def data_parallel_model(rank):
    model = rank.torch.nn.parallel.DistributedDataParallel(rank.torch.nn.Linear(3, 1))
    for step in range(3):
        loss = model(rank.torch.ones(2, 3)).sum()
        if rank.fails and step == 1:
            raise ValueError("loss exploded")  # fails
        loss.backward()


@program(2, 1, "ValueError: bad sample 18")
def with_record_of_torch(rank):
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        if rank.fails:
            raise ValueError("bad sample 18")  # fails
        rank.steps()

    main()


def wrap_loss(rank, wrap):
    """The culprit exits slowly. The others wrap their loss into an exception of the program."""
    if rank.fails:
        rank.exit_slowly()
    try:
        if rank.fails:
            raise ValueError("bad sample 17")  # fails
        rank.steps()
    except RuntimeError as error:
        wrap(error)


@program(2, 1, "ValueError: bad sample 17")
def others_raise_from_loss(rank):
    def wrap(error):
        raise TrainerError("the step failed") from error

    wrap_loss(rank, wrap)


@program(3, 1, "ValueError: bad sample 17")
def others_raise_in_context_of_loss(rank):
    def wrap(_):
        raise TrainerError("the step failed")

    wrap_loss(rank, wrap)


@program(2, 0, "ValueError: bad sample 17")
def others_raise_group_with_loss(rank):
    def wrap(error):
        raise ExceptionGroup("workers", [error])

    wrap_loss(rank, wrap)


@program(3, 2, "ValueError: bad sample 17")
def others_hide_loss(rank):
    def wrap(_):
        raise TrainerError("the step failed") from None

    wrap_loss(rank, wrap)


@program(2, 1, "ValueError: bad sample 17")
def others_fail_in_cleanup(rank):
    def wrap(_):
        {}["checkpoint"]

    wrap_loss(rank, wrap)


@program(2, 1, "ValueError: bad sample 17")
def others_exit_with_own_code(rank):
    wrap_loss(rank, lambda error: sys.exit(9))


@program(2, 0, "ValueError: bad sample 17")
def others_print_loss(rank):
    def wrap(_):
        import traceback

        traceback.print_exc()
        sys.exit(4)

    wrap_loss(rank, wrap)


@program(3, 0, "ValueError: bad sample 17")
def others_exit_with_zero(rank):
    wrap_loss(rank, lambda error: sys.exit(0))


@program(2, 1, "ValueError: bad sample 17")
def finally_destroys_group(rank):
    if rank.fails:
        rank.exit_slowly()
    try:
        if rank.fails:
            raise ValueError("bad sample 17")  # fails
        rank.steps()
    finally:
        rank.dist.destroy_process_group()


@program(2, 0, "ValueError: bad sample 17")
def hook_of_a_logger(rank):
    show = sys.excepthook

    def log_and_show(kind, error, trace):
        print("logger: run crashed", error)
        show(kind, error, trace)

    sys.excepthook = log_and_show
    if rank.fails:
        rank.exit_slowly()
        raise ValueError("bad sample 17")  # fails
    rank.steps()


@program(2, 1, "ValueError: bad sample 17")
def much_output_at_exit(rank):
    import atexit

    if rank.fails:
        rank.exit_slowly()
        atexit.register(lambda: print("\n".join(f"flushed {i}" for i in range(5000)), file=sys.stderr))
        raise ValueError("bad sample 17")  # fails
    rank.steps()


@program(4, 2, "ValueError: first")
def second_failure_exits_first(rank):
    import atexit
    import time

    store = rank.dist.distributed_c10d._get_default_store()
    if rank.fails:
        rank.exit_slowly()
        atexit.register(store.set, "failed", "yes")
        raise ValueError("first")  # fails
    if rank.number == 1:
        store.wait(["failed"])
        time.sleep(0.02)  # longer than the granularity of the times of files
        raise ValueError("second")
    rank.steps()


@program(2, 1, "ValueError: bad sample 17")
def others_raise_on_signal(rank):
    import signal

    def stop(*_):
        raise TrainerError("stopped")

    signal.signal(signal.SIGTERM, stop)
    if rank.fails:
        raise ValueError("bad sample 17")  # fails
    signal.pause()


@program(3, 1, "RuntimeError: bad shard")
def another_rank_reports_handled(rank):
    if rank.number == 0:
        try:
            raise ValueError("optional file is missing")
        except ValueError:
            sys.excepthook(*sys.exc_info())
    rank.steps()
    if rank.fails:
        raise RuntimeError("bad shard")  # fails
    rank.step()


@program(2, 1, "RuntimeError: bad shard")
def same_rank_reports_handled(rank):
    if rank.fails:
        try:
            raise ValueError("optional file is missing")
        except ValueError:
            sys.excepthook(*sys.exc_info())
    rank.steps()
    if rank.fails:
        raise RuntimeError("bad shard")  # fails
    rank.step()


def log_handled(rank):
    import logging

    try:
        raise ValueError("optional file is missing")
    except ValueError:
        logging.exception("going on without")


@program(3, 2, "KeyError: 'image'")
def all_ranks_log_handled(rank):
    log_handled(rank)
    rank.steps()
    if rank.fails:
        {}["image"]  # fails
    rank.step()


@program(2, 0, "exit code 7")
def silent_exit_after_handled(rank):
    if not rank.fails:
        log_handled(rank)
    rank.steps()
    if rank.fails:
        os._exit(7)
    rank.step()


@program(2, 1, "exit code 7")
def silent_exit_while_others_log(rank):
    if not rank.fails:
        log_handled(rank)
    rank.steps()
    if rank.fails:
        os._exit(7)
    try:
        rank.step()
    except RuntimeError:
        sys.exit(1)


@program(4, 3, "ValueError: bad sample 17")
def losses_one_after_another(rank):
    groups = [rank.dist.new_group([i, i + 1]) for i in range(3)]
    for group in groups:
        if rank.number in rank.dist.get_process_group_ranks(group):
            rank.dist.barrier(group)
    if rank.fails:
        rank.exit_slowly()
        raise ValueError("bad sample 17")  # fails
    rank.dist.all_reduce(rank.torch.ones(1), group=groups[rank.number])


@program(3, 0, "ValueError: no batch")
def first_stage_of_pipeline(rank):
    x = rank.torch.ones(4)
    for step in range(3):
        if rank.fails and step == 2:
            raise ValueError("no batch")  # fails
        if rank.number > 0:
            rank.dist.recv(x, rank.number - 1)
        if rank.number < 2:
            rank.dist.send(x, rank.number + 1)


@program(3, 2, "AttributeError: Can't pickle local object 'object_without_pickle.<locals>.<lambda>'")
def object_without_pickle(rank):
    things = [None] * rank.size
    rank.dist.all_gather_object(things, (lambda: 0) if rank.fails else 0)  # fails


@program(3, 1, "ValueError: bad sample 17")
def asynchronous_work(rank):
    works = [rank.dist.all_reduce(rank.torch.ones(4), async_op=True) for _ in range(1 if rank.fails else 4)]
    works[0].wait()
    if rank.fails:
        rank.exit_slowly()
        raise ValueError("bad sample 17")  # fails
    for work in works:
        work.wait()


def reduce_elements(rank, of_culprit, of_others):
    """Gloo ends a rank that gets too much, which is not always the one that differs."""
    rank.dist.all_reduce(rank.torch.ones(of_culprit if rank.fails else of_others))
    rank.dist.barrier()


@program(4, 2, "called all_reduce f32[800000] as #2 of world, and the other ranks called all_reduce f32[400000]")
def more_elements_than_the_others(rank):
    reduce_elements(rank, 800000, 400000)


@program(3, 1, "rank 1 called all_reduce f32[100000] as #2 of world, and the other ranks called all_reduce f32[400000]")
def fewer_elements_than_the_others(rank):
    reduce_elements(rank, 100000, 400000)


@program(2, 1, "rank 0 called all_reduce f32[800000], and rank 1 called all_reduce f32[400000], as #2 of world")
def two_ranks_with_different_sizes(rank):
    reduce_elements(rank, 400000, 800000)


@program(3, 1, "ValueError: bad sample 17")
def long_end_of_finally(rank):
    try:
        if rank.fails:
            raise ValueError("bad sample 17")  # fails
        rank.steps()
    finally:
        rank.dist.destroy_process_group()
        if rank.fails:
            time.sleep(4 * SLOW_EXIT)
