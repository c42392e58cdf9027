#include <ddp/c.h>

#include <cstdint>
#include <limits>

#include "support/c_ranks.h"
#include "support/catch.h"

using namespace ddp::test;

// integration/c_abi_test.py tests what ddplaunch shows of these calls.
TEST_CASE("C: phases, heartbeats and requests for more time work without a launcher") {
  ddp_progress* outer = nullptr;
  ddp_progress* inner = nullptr;
  CHECK(ddp_progress_begin(DDP_PROGRESS_EVALUATION, "validation set", &outer) == DDP_OK);
  CHECK(ddp_progress_begin(DDP_PROGRESS_CHECKPOINT, nullptr, &inner) == DDP_OK);
  CHECK(ddp_progress_heartbeat() == DDP_OK);
  CHECK(ddp_progress_extend(std::numeric_limits<std::int64_t>::max()) == DDP_OK);
  CHECK(ddp_progress_report(3, 10) == DDP_OK);
  const char* const names[] = {"loss"};
  const double values[] = {std::numeric_limits<double>::quiet_NaN()};
  CHECK(ddp_progress_report_values(4, 10, 1, names, values) == DDP_OK);
  CHECK(ddp_progress_report_values(5, 10, 0, nullptr, nullptr) == DDP_OK);
  CHECK(ddp_progress_end(inner) == DDP_OK);
  CHECK(ddp_progress_end(outer) == DDP_OK);
  CHECK(ddp_progress_end(nullptr) == DDP_OK);
  require_status(ddp_progress_end(outer), DDP_ERROR_INVALID_ARGUMENT, {"is not a live ddp_progress"});
}

TEST_CASE("C: an unknown phase and a negative time are rejected") {
  ddp_progress* progress = nullptr;
  require_status(ddp_progress_begin(10, "", &progress), DDP_ERROR_INVALID_ARGUMENT,
                 {"phase 10", "enum ddp_progress_phase", "0 to 9"});
  CHECK(progress == nullptr);
  require_status(ddp_progress_begin(-1, "", &progress), DDP_ERROR_INVALID_ARGUMENT, {"phase -1"});
  require_status(ddp_progress_begin(0, "", nullptr), DDP_ERROR_INVALID_ARGUMENT, {"progress is a null pointer"});
  require_status(ddp_progress_extend(-1), DDP_ERROR_INVALID_ARGUMENT, {"seconds is -1"});
}

TEST_CASE("C: negative steps and values without a name are rejected") {
  const char* const names[] = {"loss", nullptr};
  const double values[] = {1, 2};
  require_status(ddp_progress_report(-1, 0), DDP_ERROR_INVALID_ARGUMENT, {"negative"});
  require_status(ddp_progress_report_values(1, -1, 0, names, values), DDP_ERROR_INVALID_ARGUMENT, {"negative"});
  require_status(ddp_progress_report_values(1, 2, 2, names, values), DDP_ERROR_INVALID_ARGUMENT,
                 {"names[1] is a null pointer"});
  require_status(ddp_progress_report_values(1, 2, 1, nullptr, values), DDP_ERROR_INVALID_ARGUMENT, {"null pointer"});
  require_status(ddp_progress_report_values(1, 2, 1, names, nullptr), DDP_ERROR_INVALID_ARGUMENT, {"null pointer"});
}
