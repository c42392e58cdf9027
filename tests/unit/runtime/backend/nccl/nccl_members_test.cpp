#include "runtime/backend/nccl/nccl_members.h"

#include <ddp/error.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/gpu_libraries.h"
#include "support/node_groups.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Simulates the store of a rank that has ended: a request returns only when the caller no longer needs it.
class LostStore : public Store {
 public:
  void set(const std::string&, std::string_view) override {}
  std::string get(const std::string&) override { return ""; }
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  std::string compare_set(const std::string&, std::string_view, std::string_view) override { return ""; }
  bool check(std::span<const std::string>) override {
    std::this_thread::sleep_for(10s);
    return false;
  }
  bool delete_key(const std::string&) override { return false; }
};

}  // namespace

TEST_CASE("a store lost together with a rank that is no member does not block the members") {
  std::atomic<bool> aborted = false;
  const auto groups = meet_on_one_node(3);
  const auto member = std::make_shared<PeerWatch>(groups[0], Operation::recv, 1);
  const auto all = std::make_shared<PeerWatch>(groups[0]);
  groups[2]->say_failed();
  expect_error(ErrorKind::peer_lost, {"rank 2 has exited or failed"}, [&] {
    agree_on_id(gpu_libraries()->nccl, std::make_shared<LostStore>(), "id",
                NcclMembers{1, 2, 0, kPatience, kPatience, nullptr, &aborted, member, all});
  });
}

TEST_CASE("a single fixed address for all communicators is rejected on every rank") {
  const int rank = GENERATE(0, 1);
  std::atomic<bool> aborted = false;
  const NcclMembers members{rank, 2, 0, kPatience, kPatience, nullptr, &aborted, nullptr, nullptr};
  NcclApi nccl = gpu_libraries()->nccl;
  // NCCL may find the variable in its configuration file, which it reads at its first call.
  replace(nccl.get_unique_id, [](NcclUniqueId&) {
    ::setenv("NCCL_COMM_ID", "10.0.0.1:4000", 1);
    return NcclResult::success;
  });
  if (rank == 1) ::setenv("NCCL_COMM_ID", "10.0.0.1:4000", 1);
  expect_error(ErrorKind::unavailable, {"NCCL_COMM_ID=10.0.0.1:4000", "Unset the variable"},
               [&] { agree_on_id(nccl, make_memory_store(kPatience), "id", members); });
  ::unsetenv("NCCL_COMM_ID");
}
