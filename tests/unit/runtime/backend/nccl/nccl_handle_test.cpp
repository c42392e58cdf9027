#include "runtime/backend/nccl/nccl_handle.h"

#include <ddp/error.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/progress/state_gate.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/nccl_setup.h"
#include "support/node_groups.h"
#include "support/rank_threads.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("a closed communicator is finalized and then destroyed") {
  NcclSetup setup;
  {
    const auto communicator = setup.communicator();
    CHECK(communicator->settled());
    communicator->close();
    CHECK(communicator->has_ended());
  }
  CHECK(setup.counts->destroys == 1);
  CHECK(setup.counts->aborts == 0);
}

constexpr auto kShort = 500ms;  // the time of a wait that fails

TEST_CASE("a communicator that cannot be finalized in time is aborted instead of destroyed") {
  NcclSetup setup;
  setup.nccl.blocking = false;
  const auto communicator = setup.communicator(1, kPatience, kShort);
  replace(setup.nccl.get_async_error, [](NcclComm, NcclResult&) { return NcclResult::in_progress; });
  communicator->close();
  CHECK(eventually([&] { return communicator->has_ended(); }));
  CHECK(setup.counts->destroys == 0);
  CHECK(setup.counts->aborts == 1);
}

TEST_CASE("an abort that hangs is abandoned after the limit") {
  NcclSetup setup;
  auto may_end = std::make_shared<std::latch>(1);
  replace(setup.nccl.abort, [may_end](NcclComm) {
    may_end->wait();
    return NcclResult::success;
  });
  const auto communicator = setup.communicator(1, kPatience, kShort);
  communicator->abort();
  CHECK_FALSE(communicator->has_ended());
  may_end->count_down();
}

TEST_CASE("a communicator is aborted once, whatever follows") {
  NcclSetup setup;
  setup.nccl.blocking = GENERATE(true, false);
  {
    const auto communicator = setup.communicator();
    communicator->abort();
    CHECK(communicator->has_ended());
    communicator->abort();
    communicator->close();
    CHECK(communicator->has_ended());
    expect_error(ErrorKind::internal, {"the GPUs' collective failed"}, [&] { communicator->settled(); });
    const NcclStep step{NcclFunction::all_reduce};
    expect_error(ErrorKind::aborted, {"the NCCL communicator was aborted"}, [&] {
      communicator->start({&step, 1}, nullptr, 1s);
    });
    int memory = 0;
    CHECK(communicator->register_buffer(&memory, sizeof memory) == nullptr);
    CHECK(communicator->deregister_buffer(&memory));
  }
  CHECK(setup.counts->aborts == 1);
  CHECK(setup.counts->destroys == 0);
}

TEST_CASE("threads that abort a communicator at the same time abort it once") {
  NcclSetup setup;
  setup.nccl.blocking = GENERATE(true, false);
  const auto communicator = setup.communicator();
  std::latch all_are_here(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      all_are_here.arrive_and_wait();
      communicator->abort();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(communicator->has_ended());
  CHECK(setup.counts->aborts == 1);
}

TEST_CASE("a communicator is destroyed at once although its abort hangs") {
  NcclSetup setup;
  const auto may_end = std::make_shared<std::latch>(1);
  const auto begun = std::make_shared<std::atomic<int>>(0);
  replace(setup.nccl.abort, [may_end, begun](NcclComm) {
    ++*begun;
    may_end->wait();
    return NcclResult::success;
  });
  auto communicator = setup.communicator();
  SECTION("that began before") {
    communicator->abort();
  }
  SECTION("that begins now") {}
  communicator.reset();
  CHECK(eventually([&] { return *begun == 1; }));
  may_end->count_down();
}

TEST_CASE("an abort ends the start of a collective that waits for another rank") {
  NcclSetup setup;
  setup.nccl.blocking = GENERATE(true, false);
  std::atomic<bool> is_called = false;
  replace(setup.nccl.all_reduce, [&is_called, real = setup.nccl.all_reduce](auto... arguments) {
    is_called = true;
    return real(arguments...);
  });
  std::unique_ptr<NcclCommunicator> own;
  std::thread other([&] {
    const auto enter = [] { gpu_libraries()->cuda.set_device(1); };
    enter();
    NcclCommunicator(setup.nccl, {1, 2, 1, kPatience, kPatience, enter, &setup.aborted, nullptr, nullptr}, setup.id)
        .close();
  });
  own = setup.communicator(2);
  other.join();
  // A lane does this after a transfer has failed, which is no abort of the group.
  auto started = std::async(std::launch::async, [&] {
    NcclSetup::enter();
    const CudaApi cuda = gpu_libraries()->cuda;
    const CudaStream stream(cuda);
    const NcclStep step{NcclFunction::all_reduce};
    return outcome_of([&] { own->start({&step, 1}, stream.handle(), kPatience); });
  });
  CHECK(eventually([&] { return is_called.load(); }));
  own->abort();
  const RankOutcome outcome = started.get();
  CHECK(outcome.kind == ErrorKind::internal);
  CHECK_THAT(outcome.message, Catch::Contains("NCCL: "));
  CHECK(own->has_ended());
  CHECK(setup.counts->aborts == 1);
}

TEST_CASE("a communicator that fails while it is closed is aborted instead of destroyed") {
  NcclSetup setup;
  bool fails_at_once = true;
  SECTION("blocking") {
    setup.nccl.blocking = true;
  }
  SECTION("non-blocking") {
    setup.nccl.blocking = false;
  }
  SECTION("later") {
    setup.nccl.blocking = false;
    fails_at_once = false;
  }
  const auto communicator = setup.communicator();
  if (fails_at_once) {
    replace(setup.nccl.finalize, [](NcclComm) { return NcclResult::system_error; });
  } else {
    replace(setup.nccl.get_async_error, [](NcclComm, NcclResult&) { return NcclResult::remote_error; });
  }
  communicator->close();
  CHECK(communicator->has_ended());
  CHECK(setup.counts->aborts == 1);
  CHECK(setup.counts->destroys == 0);
}

TEST_CASE("an error of NCCL names the rank that has failed") {
  NcclSetup setup;
  const auto groups = meet_on_one_node(2);
  const auto communicator = setup.communicator(1, kPatience, kPatience, std::make_shared<PeerWatch>(groups[0]));
  const bool is_of_peer = GENERATE(true, false);
  replace(setup.nccl.get_async_error, [is_of_peer](NcclComm, NcclResult& state) {
    state = is_of_peer ? NcclResult::remote_error : NcclResult::system_error;
    return NcclResult::success;
  });
  SECTION("if one has") {
    groups[1]->say_failed();
    // It is reported if it shows within a moment, which a busy computer may miss.
    CHECK(eventually([&] {
      const RankOutcome outcome = outcome_of([&] { communicator->settled(); });
      return outcome.kind == ErrorKind::peer_lost && outcome.message == "rank 1 has exited or failed";
    }));
  }
  SECTION("and otherwise NCCL's reason") {
    const ErrorKind kind = is_of_peer ? ErrorKind::peer_lost : ErrorKind::internal;
    expect_error(kind, {"NCCL: ", "said the fake"}, [&] { communicator->settled(); });
  }
}

TEST_CASE("a communicator of an aborted group is not waited for") {
  NcclSetup setup;
  const auto communicator = setup.communicator();
  setup.aborted = true;
  expect_error(ErrorKind::aborted, {"the process group was aborted"}, [&] { communicator->settled(); });
}

TEST_CASE("the keeper of a state in GPU memory is asked before a communicator is aborted, and only once") {
  NcclSetup setup;
  const auto aborts_before = std::make_shared<std::vector<int>>();
  StateGate::of_process().set_keeper(
      [] {}, {.changes = [](Stream) {},
              .before_abort = [aborts_before, counts = setup.counts] { aborts_before->push_back(counts->aborts); }});
  {
    const auto communicator = setup.communicator();
    SECTION("by abort()") {
      communicator->abort();
    }
    SECTION("because it cannot be closed") {
      replace(setup.nccl.finalize, [](NcclComm) { return NcclResult::system_error; });
      communicator->close();
    }
    communicator->abort();
    CHECK(communicator->has_ended());
  }
  StateGate::of_process().set_keeper(nullptr);
  CHECK(*aborts_before == std::vector<int>{0});
}
