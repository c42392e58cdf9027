#include "launcher/run/ranks/torch_stacks.h"

#include <string>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

RankStacks stacks_of(std::vector<std::string> first, std::vector<std::vector<std::string>> others = {}) {
  RankStacks stacks;
  stacks.threads.push_back({1, "python3", std::move(first)});
  for (auto& frames : others) stacks.threads.push_back({2, "python3", std::move(frames)});
  return stacks;
}

const std::vector<std::string> kInWork = {"pthread_cond_wait (pthread_cond_wait.c:503)",
                                          "c10d::Work::wait (libtorch_cpu.so)",
                                          "_PyEval_EvalFrameDefault (python3.11)"};
const std::vector<std::string> kIdle = {"pthread_cond_wait (pthread_cond_wait.c:503)",
                                        "c10d::ProcessGroupGloo::runLoop(int) (libtorch_cpu.so)"};

std::vector<std::string> carries_out(const std::string& frame) {
  return {"gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)", frame,
          "c10d::ProcessGroupGloo::AsyncWork::execute (libtorch_cpu.so)",
          "c10d::ProcessGroupGloo::runLoop(int) (libtorch_cpu.so)"};
}

}  // namespace

TEST_CASE("a main thread that waits in c10d waits for the operations of Gloo's threads") {
  const auto operation = [](const std::string& frame) {
    const auto awaited = awaited_operation(stacks_of(kInWork, {kIdle, carries_out(frame)}));
    CHECK(awaited.wait == GroupWait::operation);
    return awaited.operation;
  };
  CHECK(operation("c10d::(anonymous namespace)::AsyncAllreduceWork::allreduce (libtorch_cpu.so)") == "all_reduce");
  CHECK(operation("gloo::barrier(gloo::BarrierOptions&) (libgloo.so.0.5.0)") == "barrier");
  CHECK(operation("gloo::allgather(gloo::AllgatherOptions&) (libtorch_cpu.so)") == "all_gather");
  CHECK(operation("c10d::(anonymous namespace)::AsyncReduceScatterWork::run() (libtorch_cpu.so)") == "reduce_scatter");
  CHECK(operation("?? (libtorch_cpu.so.1.13.0)").empty());
}

TEST_CASE("the end of a backward pass waits for DistributedDataParallel's all_reduce") {
  const auto awaited =
      awaited_operation(stacks_of({"std::condition_variable::wait(std::unique_lock<std::mutex>&) (libstdc++.so.6.0.30)",
                                   "c10d::Reducer::finalize_backward (libtorch_cpu.so)"},
                                  {carries_out("?? (libtorch_cpu.so.1.13.0)")}));
  CHECK(awaited.wait == GroupWait::operation);
  CHECK(awaited.operation == "all_reduce");
}

TEST_CASE("none of several simultaneous operations is named") {
  const auto awaited =
      awaited_operation(stacks_of(kInWork, {carries_out("gloo::barrier(gloo::BarrierOptions&) (libgloo.so)"),
                                            carries_out("gloo::broadcast(gloo::BroadcastOptions&) (libgloo.so)")}));
  CHECK(awaited.wait == GroupWait::operation);
  CHECK(awaited.operation.empty());
}

TEST_CASE("receives, sends and monitored_barrier wait in the main thread itself") {
  const std::vector<std::string> recv = {"gloo::transport::tcp::UnboundBuffer::waitRecv (libtorch_cpu.so)",
                                         "c10d::ProcessGroupGloo::RecvWork::wait (libtorch_cpu.so)"};
  CHECK(awaited_operation(stacks_of(recv)).operation == "recv");
  std::vector<std::string> monitored = recv;
  monitored.emplace_back("c10d::ProcessGroupGloo::monitoredBarrier (libtorch_cpu.so)");
  CHECK(awaited_operation(stacks_of(monitored)).operation == "monitored_barrier");
  CHECK_FALSE(is_recorded("recv"));
  CHECK_FALSE(is_recorded("monitored_barrier"));
  CHECK(is_recorded("all_reduce"));
  CHECK(is_recorded(""));
}

TEST_CASE("a main thread outside of c10d waits in no operation, and a truncated stack shows nothing") {
  CHECK(awaited_operation(stacks_of({"clock_nanosleep (libc.so.6)", "_PyEval_EvalFrameDefault (python3.11)"})).wait ==
        GroupWait::none);
  // A wait of another thread is not the program's wait.
  CHECK(awaited_operation(stacks_of({"PyEval_EvalCode (python3.11)"}, {kInWork})).wait == GroupWait::none);
  CHECK(awaited_operation(stacks_of({"clock_nanosleep (libc.so.6)", "?? (what called it is not known)"})).wait ==
        GroupWait::unknown);
  CHECK(awaited_operation({}).wait == GroupWait::unknown);
}

TEST_CASE("the program's own line is the innermost frame outside of libraries") {
  const auto call = python_call(
      stacks_of({"all_reduce (distributed/distributed_c10d.py:2811)", "wrapper (distributed/c10d_logger.py:81)",
                 "step (train.py:26)", "<module> (train.py:40)"}));
  CHECK(call.function == "all_reduce");
  CHECK(call.place == "train.py:26");
  // Work.wait() has no Python frame.
  CHECK(python_call(stacks_of({"step (train.py:27)"})).place == "train.py:27");
  CHECK(python_call(stacks_of({"step (train.py:27)"})).function.empty());
  CHECK(python_call(stacks_of({"?? (0x12)", "broken (", "x (y)"})).place.empty());
  CHECK(python_call({}).place.empty());
}

TEST_CASE("Python frames show the functions of torch.distributed that wait in native code") {
  const auto awaited = [](const std::vector<std::string>& functions, const std::string& file = "distributed_c10d") {
    std::vector<std::string> frames;
    for (const std::string& function : functions) frames.push_back(function + " (distributed/" + file + ".py:9)");
    frames.emplace_back("<module> (train.py:20)");
    const auto found = awaited_in_python(stacks_of(frames));
    CHECK(found.wait == (found.operation.empty() ? GroupWait::none : GroupWait::operation));
    return found.operation;
  };
  CHECK(awaited({"all_reduce", "wrapper"}) == "all_reduce");
  CHECK(awaited({"all_gather", "all_gather_object"}) == "all_gather");
  CHECK(awaited({"_all_gather_base"}) == "all_gather");
  CHECK(awaited({"all_gather_into_tensor"}) == "all_gather");
  CHECK(awaited({"reduce_scatter_tensor"}) == "reduce_scatter");
  CHECK(awaited({"reduce"}) == "reduce");
  CHECK(awaited({"all_to_all_single"}) == "all_to_all");
  CHECK(awaited({"monitored_barrier"}) == "monitored_barrier");
  CHECK(awaited({"send"}) == "send");
  CHECK(awaited({"recv", "recv_object_list"}) == "recv");
  CHECK(awaited({"_store_based_barrier", "init_process_group", "wrapper"}) == "init_process_group");
  CHECK(awaited({"_new_process_group_helper", "_new_group_with_tag", "new_group"}) == "new_group");
  CHECK(awaited({"_create_c10d_store", "_env_rendezvous_handler"}, "rendezvous").empty());
  // These compute, and wait for no rank.
  CHECK(awaited({"_rank_not_in_group", "get_rank"}).empty());
  CHECK(awaited({"_object_to_tensor", "all_gather_object"}).empty());
  CHECK(awaited({"gather_object"}).empty());
  CHECK(awaited({"isend"}).empty());
}

TEST_CASE("a function outside of torch.distributed may wait in native code unless it is Python's own") {
  const auto wait = [](const std::string& frame) { return awaited_in_python(stacks_of({frame})).wait; };
  CHECK(wait("step (train.py:27)") == GroupWait::unknown);
  CHECK(wait("_engine_run_backward (autograd/graph.py:829)") == GroupWait::unknown);
  CHECK(wait("wait_tensor (distributed/_functional_collectives.py:9)") == GroupWait::unknown);
  CHECK(wait("wait (python3.13/threading.py:359)") == GroupWait::none);
  CHECK(wait("_find_and_load (<frozen importlib._bootstrap>:1360)") == GroupWait::none);
  CHECK(wait("?? (0x12)") == GroupWait::unknown);
  CHECK(awaited_in_python({}).wait == GroupWait::unknown);
  CHECK(awaited_in_python(stacks_of({})).wait == GroupWait::unknown);
  // An import within torch.distributed is no wait for other ranks.
  CHECK(awaited_in_python(stacks_of({"_load_unlocked (<frozen importlib._bootstrap>:935)",
                                     "init_process_group (distributed/distributed_c10d.py:1756)"}))
            .wait == GroupWait::none);
}

TEST_CASE("a main thread that spins in CUDA waits for its GPU") {
  const std::vector<std::string> tail = {"cudaStreamSynchronize (libcudart.so.12)",
                                         "at::native::_local_scalar_dense_cuda (libtorch_cuda.so)",
                                         "_PyEval_EvalFrameDefault (python3.11)"};
  std::vector<std::string> frames = {"?? (libcuda.so.1)"};
  frames.insert(frames.end(), tail.begin(), tail.end());
  const auto awaited = awaited_operation(stacks_of(frames));
  CHECK(awaited.wait == GroupWait::operation);
  CHECK(awaited.operation == kGpuSynchronization);
  CHECK(frames_of_wait(stacks_of(frames)) == tail);
  CHECK(frames_of_wait(stacks_of({"_PyEval_EvalFrameDefault (python3.11)"})).empty());
  CHECK(frames_of_wait({}).empty());
}
