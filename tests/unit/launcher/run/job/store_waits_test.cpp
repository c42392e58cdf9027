#include "launcher/run/job/store_waits.h"

#include <string>
#include <vector>

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::store::LongWait;
using ddp::store::TimePoint;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::string& key, const ddp::store::WhoWaits& who) {
  return describe({key, 3, {}, who}, 30s);
}

}  // namespace

TEST_CASE("a wait for a PyTorch key is described by its function, the waiting ranks and the awaited ranks") {
  const ddp::store::WhoWaits rank_1_is_missing = {"0, 2", "", "1"};
  CHECK(text_of("/default_pg/0//cpu//0/1", rank_1_is_missing) ==
        "ranks 0, 2 have waited in init_process_group for rank 1 for 30.0 s; rank 1 is not connected to the store "
        "(key \"/default_pg/0//cpu//0/1\")");
  CHECK(text_of("/default_pg/0//7//cpu//0/1", {"0", "1-3", ""}) ==
        "rank 0 has waited in new_group for rank 1 of group 7 for 30.0 s; ranks 1-3 are connected and do not wait for "
        "it (key \"/default_pg/0//7//cpu//0/1\")");
  CHECK(text_of("/default_pg/0//cuda//0", {"1-7", "0", ""}) ==
        "ranks 1-7 have waited in the first operation of NCCL for rank 0 for 30.0 s; rank 0 is connected and does not "
        "wait for it (key \"/default_pg/0//cuda//0\")");
  CHECK_THAT(text_of("/rpc_prefix_0/0/1", rank_1_is_missing),
             Catch::StartsWith("ranks 0, 2 have waited in init_rpc for rank 1 for 30.0 s; rank 1 is not connected"));
  CHECK_THAT(text_of("default_pg/0//store_based_barrier_key:2:last_worker", rank_1_is_missing),
             Catch::StartsWith("ranks 0, 2 have waited in the creation of a process group for 30.0 s; rank 1 is not"));
}

TEST_CASE("a wait for another key is described by its key") {
  CHECK(text_of("/default_pg/0//model_ready", {"1, 2", "0", ""}) ==
        "ranks 1, 2 have waited in the store for key \"/default_pg/0//model_ready\" for 30.0 s; rank 0 is connected "
        "and does not wait for it");
  for (const char* key : {"", "/", "//", "////", "/default_pg/0//", "/default_pg/0//step 7", "a//b//0/1", "/epoch/1"}) {
    CHECK_THAT(text_of(key, {"1", "", ""}),
               Catch::StartsWith("rank 1 has waited in the store for key \"" + std::string(key) + "\" for 30.0 s"));
  }
  CHECK_THAT(text_of("\x1b[2J" + std::string(4096, 'x'), {"1", "", ""}), !Catch::Contains("\x1b"));
  CHECK(text_of("\x1b[2J" + std::string(4096, 'x'), {"1", "", ""}).size() < 200);
}

TEST_CASE("clients with unknown ranks are counted") {
  CHECK_THAT(text_of("/default_pg/0//cpu//0/1", {}),
             Catch::StartsWith("3 clients of the store have waited in init_process_group for rank 1"));
}

TEST_CASE("a long wait is reported once") {
  StoreWaits waits(30s);
  const TimePoint start{};
  const std::vector<LongWait> one = {{"/x", 1, start, {"0", "", ""}}};
  CHECK(waits.add(one, start + 29s).empty());
  CHECK(waits.add(one, start + 34s).size() == 1);
  CHECK(waits.add(one, start + 39s).empty());
  waits.clear();
  CHECK(waits.add(one, start + 44s).size() == 1);
}

TEST_CASE("a client that repeats its wait has waited since its first try") {
  StoreWaits waits(30s);
  const TimePoint start{};
  std::size_t reports = 0;
  // It waits for 10 s at a time. Some looks see nothing.
  for (auto now = 5s; now <= 40s; now += 5s) {
    const bool is_seen = now % 10s != 0s;
    const std::vector<LongWait> seen = {{"/x", 1, start + now - 5s, {"0", "", ""}}};
    reports += waits.add(is_seen ? seen : std::vector<LongWait>(), start + now).size();
  }
  CHECK(reports == 1);
}

TEST_CASE("waits separated by a pause are different waits, and only a limited number is reported") {
  StoreWaits waits(30s);
  const TimePoint start{};
  CHECK(waits.add({{"/x", 1, start, {"0", "", ""}}}, start + 25s).empty());
  CHECK(waits.add({}, start + 40s).empty());
  CHECK(waits.add({{"/x", 1, start + 40s, {"0", "", ""}}}, start + 45s).empty());
  std::vector<LongWait> many;
  for (char name = 'a'; name <= 'z'; ++name) many.push_back({std::string(1, name), 1, start, {"0", "", ""}});
  CHECK(waits.add(many, start + 60s).size() == ddp::limits::kStoreWaitReports);
}
