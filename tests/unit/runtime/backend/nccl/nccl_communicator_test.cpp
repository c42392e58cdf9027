#include "runtime/backend/nccl/nccl_communicator.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include "support/fake_nccl.h"

using namespace std::chrono_literals;
using ddp::BackendOptions;
using ddp::NcclApi;
using ddp::NcclCommunicator;
using ddp::NcclResult;
using ddp::NcclUniqueId;
using ddp::test::FakeNccl;

namespace {

struct Setup {
  FakeNccl fake;
  NcclApi nccl = fake.nccl();
  NcclUniqueId id{};

  Setup() { nccl.get_unique_id(id); }
  NcclCommunicator communicator(std::chrono::milliseconds closing_limit = 10s) const {
    return {nccl, BackendOptions{0, 1, 0, 10s}, id, closing_limit};
  }
};

}  // namespace

TEST_CASE("a communicator that nccl refuses to make is not aborted because there is none") {
  const Setup setup;
  setup.fake.rank().init_result = NcclResult::unhandled_cuda_error;
  CHECK_THROWS_WITH(setup.communicator(), Catch::Contains("result 1"));
  CHECK(setup.fake.rank().aborts == 0);
}

TEST_CASE("a communicator that breaks while it is made is aborted") {
  const Setup setup;
  setup.fake.rank().init_polls = 2;
  setup.fake.rank().init_error = NcclResult::remote_error;
  try {
    setup.communicator();
    FAIL("nothing was thrown");
  } catch (const ddp::Error& error) {
    CHECK(error.kind() == ddp::ErrorKind::peer_lost);
  }
  CHECK(setup.fake.rank().aborts == 1);
}

TEST_CASE("a communicator that cannot be finalized in time is aborted and not destroyed") {
  const Setup setup;
  setup.fake.rank().finalize_polls = FakeNccl::kForEver;
  NcclCommunicator communicator = setup.communicator(5ms);
  CHECK(communicator.close());
  CHECK(setup.fake.rank().finalizes == 1);
  CHECK(setup.fake.rank().destroys == 0);
  CHECK(setup.fake.rank().aborts == 1);
}

TEST_CASE("an abort that hangs is left behind after the limit") {
  const Setup setup;
  setup.fake.rank().abort_hangs = true;
  NcclCommunicator communicator = setup.communicator(5ms);
  CHECK_FALSE(communicator.abort());
  setup.fake.let_aborts_end();
}

TEST_CASE("a communicator that is closed is finalized and then destroyed") {
  const Setup setup;
  setup.fake.rank().init_polls = 3;
  setup.fake.rank().finalize_polls = 3;
  NcclCommunicator communicator = setup.communicator();
  CHECK(communicator.state() == NcclResult::success);
  CHECK(communicator.close());
  CHECK(setup.fake.rank().destroys == 1);
  CHECK(setup.fake.rank().aborts == 0);
}
