#include <ddp/c.h>

#include <cstdint>
#include <limits>

#include "support/c_ranks.h"
#include "support/catch.h"

using namespace ddp::test;

// integration/c_abi_test.py tests what ddplaunch shows of these calls.
TEST_CASE("C: phases, heartbeats and more time break nothing without a launcher") {
  ddp_progress* outer = nullptr;
  ddp_progress* inner = nullptr;
  CHECK(ddp_progress_begin(DDP_PROGRESS_EVALUATION, "validation set", &outer) == DDP_OK);
  CHECK(ddp_progress_begin(DDP_PROGRESS_CHECKPOINT, nullptr, &inner) == DDP_OK);
  CHECK(ddp_progress_heartbeat() == DDP_OK);
  CHECK(ddp_progress_extend(std::numeric_limits<std::int64_t>::max()) == DDP_OK);
  CHECK(ddp_progress_end(inner) == DDP_OK);
  CHECK(ddp_progress_end(outer) == DDP_OK);
  CHECK(ddp_progress_end(nullptr) == DDP_OK);
  require_status(ddp_progress_end(outer), DDP_ERROR_INVALID_ARGUMENT, {"is not a live ddp_progress"});
}

TEST_CASE("C: a phase that does not exist and a negative time are refused") {
  ddp_progress* progress = nullptr;
  require_status(ddp_progress_begin(10, "", &progress), DDP_ERROR_INVALID_ARGUMENT,
                 {"phase 10", "enum ddp_progress_phase", "0 to 9"});
  CHECK(progress == nullptr);
  require_status(ddp_progress_begin(-1, "", &progress), DDP_ERROR_INVALID_ARGUMENT, {"phase -1"});
  require_status(ddp_progress_begin(0, "", nullptr), DDP_ERROR_INVALID_ARGUMENT, {"progress is a null pointer"});
  require_status(ddp_progress_extend(-1), DDP_ERROR_INVALID_ARGUMENT, {"seconds is -1"});
}
