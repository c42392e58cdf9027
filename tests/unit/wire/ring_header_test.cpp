// Tests that what bindings/c/ddp_page.h writes into a record ring is what wire/record_ring_layout.h reads there.
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../../bindings/c/ddp_page.h"
#include "support/catch.h"
#include "wire/record_ring_layout.h"
#include "wire/status_page_layout.h"
#include "wire/worker_env.h"

using namespace ddp::wire;

namespace {

// Offers memory as the launcher makes it and a worker finds it. It stays mapped until the process ends, because this
// file's header opens the ring once.
template <typename Layout>
Layout& offered(const char* variable, std::uint32_t magic, std::uint32_t version) {
  const int descriptor = ::memfd_create(variable, MFD_CLOEXEC);
  REQUIRE(::ftruncate(descriptor, sizeof(Layout)) == 0);
  void* memory = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  REQUIRE(memory != MAP_FAILED);
  auto& layout = *static_cast<Layout*>(memory);
  layout.magic = magic;
  layout.version = version;
  layout.bytes = sizeof(Layout);
  ::setenv(variable, std::to_string(descriptor).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  return layout;
}

}  // namespace

TEST_CASE("the launcher reads the record ring that C code writes") {
  auto& page = offered<StatusPageLayout>(env::kStatusPage, kPageMagic, kPageVersion);
  auto& ring = offered<RecordRingLayout>(env::kRecordRing, kRingMagic, kRingVersion);
  ring.mode = RecordMode::steps;
  ddp_page* mine = ddp_page_open();
  REQUIRE(mine != nullptr);

  // The first call only says when the next step begins. A smaller number begins again.
  for (const std::uint64_t step : {5U, 6U, 6U, 7U, 1U, 2U}) ddp_progress_at(mine, step, 10);
  CHECK(ring.writer == ::getpid());
  REQUIRE(ring.claimed == 3);
  const auto& records = ring.records;
  CHECK((records[0].number == 6 && records[1].number == 7 && records[2].number == 2));
  CHECK((records[0].kind == RecordKind::step && records[0].group == kNoRingGroup && records[0].name == 0));
  CHECK(records[0].begin <= records[0].end);
  CHECK(records[0].end == records[1].begin);

  // The phase before is unknown, so nothing is recorded of it. Training is never recorded.
  ddp_phase(mine, DDP_PHASE_DATA_LOADING, "shard 3", nullptr, 0);
  ddp_phase(mine, DDP_PHASE_TRAINING, "", nullptr, 0);
  ddp_phase(mine, DDP_PHASE_DONE, "", nullptr, 0);
  REQUIRE(ring.claimed == 4);
  CHECK((records[3].kind == RecordKind::phase && records[3].operation == DDP_PHASE_DATA_LOADING));
  CHECK(records[3].name > 0);
  CHECK(std::string(ring.names[records[3].name].text.data()) == "shard 3");
  CHECK(ring.names[records[3].name].hash > kNameIsWritten);
  CHECK(records[3].begin <= records[3].end);

  const std::string long_name(40, 'n');
  const char* const names[] = {"loss", long_name.c_str(), "a", "b", "c", "d", "e", "f", "not shown"};
  const double values[] = {1.5, INFINITY, 0, 0, 0, 0, 0, -2, 9};
  ddp_progress_values(mine, 3, 10, 9, names, values);
  CHECK(ring.changes == 2);
  CHECK(ring.value_count == 8);
  CHECK((std::string(ring.values[0].name.data()) == "loss" && ring.values[0].value == 1.5));
  CHECK((std::string(ring.values[1].name.data()) == long_name.substr(0, 23) && std::isinf(ring.values[1].value)));
  CHECK((std::string(ring.values[7].name.data()) == "f" && ring.values[7].value == -2));
  ddp_progress_values(mine, 4, 10, 0, nullptr, nullptr);
  CHECK((ring.changes == 2 && ring.value_count == 8 && page.progress_done == 4));
  CHECK(ring.claimed == 6);

  // Once there are heartbeats, they are the steps.
  ddp_heartbeat(mine);
  ddp_progress_at(mine, 5, 10);
  ddp_heartbeat(mine);
  REQUIRE(ring.claimed == 8);
  CHECK((records[6].number == 1 && records[7].number == 2));

  // A full ring drops records. With the mode off, nothing is recorded.
  ring.claimed = kRingRecords + ring.taken;
  ddp_heartbeat(mine);
  CHECK(ring.dropped == 1);
  ring.taken = ring.claimed.load();
  ring.mode = RecordMode::off;
  ddp_heartbeat(mine);
  ring.mode = RecordMode::all;
  ddp_heartbeat(mine);
  CHECK(ring.claimed == ring.taken);
  ddp_heartbeat(mine);
  CHECK(ring.claimed == ring.taken + 1);
  CHECK(page.worker.steps == 6);
  ::unsetenv(env::kStatusPage);  // NOLINT(concurrency-mt-unsafe)
  ::unsetenv(env::kRecordRing);  // NOLINT(concurrency-mt-unsafe)
}
