// Plays NCCL with many communicators, threads and processes.
#include "nccl_profiler/communicators.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "support/nccl_worker.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace ddp::test;
namespace wire = ddp::wire;

TEST_CASE("a group has the program's name or a note that all ranks are in it") {
  const int version = GENERATE(4, 5, 6, 7);
  NcclPlayer player = played(version);
  const std::uint64_t named = new_id();
  const std::uint64_t all = new_id();
  const std::uint64_t some = new_id();
  auto one = player.init(named, 2, 1, "tensor parallel");
  auto two = player.init(all, kRanks, 1);
  auto three = player.init(some, 2, 1, "");
  CHECK(worker().group(named)->name == "tensor parallel");
  CHECK(worker().group(all)->name == "world");
  CHECK(worker().group(some)->name == "communicator 12345678");
  for (auto* comm : {&one, &two, &three}) player.finalize(*comm);
}

TEST_CASE("a destroyed communicator stays visible until its place is needed") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  player.finalize(comm);
  REQUIRE(worker().group(id));
  CHECK(worker().group(id)->is_left);
  CHECK(worker().group(id)->called == 1);
}

TEST_CASE("10,000 communicators in turn reuse the same places") {
  const int version = any_version();
  NcclPlayer player = played(version);
  const std::uint32_t before = worker().memory().groups_not_shown;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t id = new_id();
    auto comm = player.init(id, kRanks, 1);
    player.collective(comm, "AllReduce", 8);
    player.transfer(comm, "Send", 8, 0);
    if (i % 1000 == 0) {
      REQUIRE(worker().group(id));
      CHECK(worker().group(id)->called == 1);
      CHECK(worker().group(id)->transfers_called == 1);
    }
    player.finalize(comm);
  }
  CHECK(worker().memory().groups_not_shown == before);
}

TEST_CASE("the plug-in counts communicators beyond the page's places, and shows a new one when places are free") {
  NcclPlayer player = played(any_version());
  const std::uint32_t before = worker().memory().groups_not_shown;
  std::vector<NcclPlayer::Communicator> all;
  for (std::size_t i = 0; i < wire::kPageGroups + 5; ++i) {
    all.push_back(player.init(new_id(), kRanks, 1));
    player.collective(all.back(), "AllReduce", 8);
  }
  CHECK(worker().memory().groups_not_shown >= before + 5);
  for (auto& comm : all) player.finalize(comm);
  const std::uint64_t id = new_id();
  auto next = player.init(id, kRanks, 1);
  player.collective(next, "AllReduce", 8);
  CHECK(worker().group(id));
  player.finalize(next);
}

TEST_CASE("two members in one process make the launch counts of their communicator incomplete") {
  NcclPlayer player = played(GENERATE(4, 5, 6, 7));
  const std::uint64_t id = new_id();
  auto one = player.init(id, 2, 0);
  auto other = player.init(id, 2, 1);
  player.collective(one, "AllReduce", 8);
  player.collective(other, "AllReduce", 8);
  CHECK_FALSE(worker().group(id)->launches->is_complete);
  player.finalize(one);
  player.finalize(other);
}

TEST_CASE("threads may use their own communicators while others create new ones") {
  NcclPlayer player = played(any_version());
  std::vector<std::uint64_t> ids;
  std::vector<NcclPlayer::Communicator> comms;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(new_id());
    comms.push_back(player.init(ids.back(), kRanks, 1));
  }
  std::vector<std::jthread> threads;
  for (auto& comm : comms) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        player.collective(comm, "AllReduce", 8);
        if (i % 100 == 0) player.transfer(comm, "Recv", 8, 3);
      }
    });
  }
  std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) worker().page.view(0);
  });
  for (int i = 0; i < 200; ++i) {
    auto comm = player.init(new_id(), kRanks, 1);
    player.finalize(comm);
  }
  threads.clear();
  for (const std::uint64_t id : ids) CHECK(worker().group(id)->called == 2000);
  for (auto& comm : comms) player.finalize(comm);
}

TEST_CASE("threads may share a communicator, and one may abort it during their calls") {
  // Until version 4, NCCL numbers the launches of all threads in one order, which the copies of `comm` do not.
  NcclPlayer player = played(GENERATE(5, 6, 7));
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  std::vector<std::jthread> threads;
  std::atomic<int> calls = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      auto own = comm;
      for (int k = 0; k < 2000; ++k) {
        player.collective(own, "AllReduce", 8);
        ++calls;
      }
    });
  }
  while (calls < 1000) std::this_thread::yield();
  auto aborted = comm;
  player.finalize(aborted);
  threads.clear();
  CHECK(worker().group(id)->is_left);
  CHECK(worker().group(id)->called == 6000);
}

TEST_CASE("the library stays loaded when NCCL unloads it") {
  const int version = any_version();
  const std::uint64_t first = new_id();
  const std::uint64_t second = new_id();
  {
    NcclPlayer player = played(version);
    auto comm = player.init(first, kRanks, 1);
    player.collective(comm, "AllReduce", 8);
    player.finalize(comm);
  }
  NcclPlayer player = played(version);
  auto comm = player.init(second, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  CHECK(worker().group(first)->called == 1);
  CHECK(worker().group(second)->called == 1);
  player.finalize(comm);
}

TEST_CASE("a forked child records nothing") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 10; ++i) player.collective(comm, "AllReduce", 8);
    auto own = player.init(id + 1000, kRanks, 1);
    player.collective(own, "AllReduce", 8);
    player.finalize(comm);
    ::_exit(own.context == nullptr ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(worker().group(id)->called == 1);
  CHECK_FALSE(worker().group(id)->is_left);
  CHECK_FALSE(worker().group(id + 1000));
  player.finalize(comm);
}

TEST_CASE("the plug-in is inactive for groups of the runtime") {
  NcclPlayer player = played(any_version());
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  worker().memory().worlds_entered = 1;
  player.collective(comm, "AllReduce", 8);
  auto next = player.init(new_id(), kRanks, 1);
  CHECK(next.context == nullptr);
  player.collective(next, "AllReduce", 8);
  worker().memory().worlds_entered = 0;
  CHECK(worker().group(id)->called == 1);
  player.finalize(comm);
}

TEST_CASE("groups that PyTorch's NCCL recorder shows are not shown twice") {
  const TemporaryDirectory folder;
  const std::string prefix = folder.path() + "/rank0";
  ::setenv("DDP_TORCH_FILE", prefix.c_str(), 1);
  NcclPlayer player = played(5);
  const auto is_shown = [&](const std::string& line) {
    std::ofstream(prefix + ".groups") << line << "\n";
    auto comm = player.init(new_id(), kRanks, 1);
    const bool shown = comm.context != nullptr;
    player.collective(comm, "AllReduce", 8);
    if (shown) player.finalize(comm);
    return shown;
  };
  CHECK_FALSE(is_shown(R"({"pid": 7, "recorders": ["gloo", "nccl"], "times": -1})"));
  CHECK(is_shown(R"({"pid": 7, "recorders": ["gloo"], "times": -1, "backend": "nccl"})"));
  CHECK(is_shown(R"({"pid": 7, "recorders": ["gloo)"));
  CHECK(is_shown(""));
  ::unsetenv("DDP_TORCH_FILE");
}

TEST_CASE("a communicator of one rank takes no place") {
  NcclPlayer player = played(7);
  const std::uint64_t id = new_id();
  auto comm = player.init(id, 1, 0);
  CHECK_FALSE(worker().group(id));
  player.finalize(comm);
}

TEST_CASE("each call is recorded unless PyTorch's recorder shows it") {
  NcclPlayer player = played(any_version());
  worker().ring.discard();
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 256);
  player.transfer(comm, "Send", 8, 2);
  const auto taken = worker().take_records().records;
  REQUIRE(taken.size() == 2);
  CHECK((taken[0].kind == wire::RecordKind::collective && taken[0].number == 1 && taken[0].bytes == 1024));
  CHECK(taken[1].kind == wire::RecordKind::transfer);
  worker().memory().records_launches = 1;
  player.collective(comm, "AllReduce", 256);
  CHECK(worker().take_records().records.empty());
  CHECK_FALSE(worker().group(id));  // it would be shown twice
  worker().memory().records_launches = 0;
  player.finalize(comm);
}
