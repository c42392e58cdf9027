#include "support/catch.h"
#include "support/golden.h"
#include "support/situation.h"

using namespace ddp::launcher;

TEST_CASE("the plan as JSON is the golden one") {
  Situation situation;
  situation.options.nproc_per_node = 2;
  check_golden("plan_two_gpus.json", describe_json(situation.plan()));
}

TEST_CASE("a name that is no UTF-8 can be shown as JSON") {
  Situation situation;
  situation.options.command = {"./train", "\xff\xfe"};
  CHECK(describe_json(situation.plan()).find("\\ufffd\\ufffd") != std::string::npos);
}
