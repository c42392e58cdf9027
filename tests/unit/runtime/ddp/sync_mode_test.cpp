#include "runtime/ddp/sync_mode.h"

#include "support/catch.h"

using ddp::internal::SyncMode;

TEST_CASE("a step reduces the gradients except in no_sync, in a local step or inside an accumulation window") {
  SyncMode mode{.divisor = 4};
  CHECK(mode.plan().synchronizes);
  CHECK(mode.plan().factor == 1.0 / 4);
  mode.no_sync_levels = 1;
  CHECK(!mode.plan().synchronizes);
  mode = {.is_local = true};
  CHECK(!mode.plan().synchronizes);
  mode = {.window = {.synchronizes = false, .steps = 2}};
  CHECK(!mode.plan().synchronizes);
  mode = {.is_accumulating = true, .is_joined = true};
  CHECK(mode.plan().synchronizes);
}

TEST_CASE("gradients are divided by the ranks and by the steps of the window") {
  const SyncMode mode{.divisor = 4, .window = {.synchronizes = true, .steps = 3}};
  CHECK(mode.plan().factor == 1.0 / 12);
}
