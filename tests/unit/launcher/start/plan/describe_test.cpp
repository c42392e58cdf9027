#include "base/text.h"
#include "support/catch.h"
#include "support/fake_authenticator.h"
#include "support/golden.h"
#include "support/situation.h"

using namespace ddp::launcher;

TEST_CASE("the printed plan equals the golden file") {
  Situation situation;
  check_golden("plan_four_gpus.txt", describe(situation.plan()));
  situation.without_gpus().options.nproc_per_node = 2;
  situation.options.backend = "gloo";
  check_golden("plan_two_cpu_workers.txt", describe(situation.plan()));
}

TEST_CASE("a plan shows the limits of the store and who may use it, but not the token") {
  Situation situation;
  situation.options.store_open = true;
  situation.options.store_limits.keys = 7;
  situation.options.auth_token_file = "/token";
  situation.facts.auth_token = ddp::test::fake_authenticator("secret");
  const std::string text = describe(situation.plan());
  CHECK_THAT(text, Catch::Contains("served by ddplaunch (listens on ::), open to all users and hosts\n") &&
                       Catch::Contains("store token  --auth-token-file=/token\n") &&
                       Catch::Contains("store limits keys=7\n") && !Catch::Contains("secret"));
}

TEST_CASE("the printed plan of a torchrun job equals the golden file") {
  Situation situation;
  situation.mode(CompatibilityMode::torch_launch);
  situation.options.command = {"train.py", "--out", "a b", "it's"};
  situation.options.local_rank_argument = true;
  situation.options.nproc_per_node = 2;
  situation.options.rdzv_endpoint = "localhost:29511";
  situation.options.run_id = "job7";
  situation.options.max_restarts = 3;
  situation.options.redirects.by_local_rank = {{1, 3}};
  situation.options.tee.by_local_rank = {{0, 1}};
  situation.options.gpus = "2,3";
  situation.options.numa_binding = NumaBinding::node;
  situation.options.summary_file = "summary.json";
  check_golden("plan_torch_launch.txt", describe(situation.plan()));
}

TEST_CASE("the plan explains a token together with --store-open") {
  Situation situation;
  situation.options.store_open = true;
  situation.options.auth_token_file = "/token";
  situation.facts.auth_token = ddp::test::fake_authenticator("secret");
  const auto notes = [&] { return ddp::base::join(situation.plan().notes, "\n"); };
  CHECK_THAT(notes(), Catch::Contains("--auth-token-file=/token has no effect together with --store-open"));
  situation.options.min_nodes = situation.options.max_nodes = 2;
  situation.options.rdzv_endpoint = "a:29400";
  CHECK_THAT(notes(), Catch::Contains("it only makes the first node refuse launchers that have another token"));
}

TEST_CASE("the plan of several nodes states nothing that depends on other nodes") {
  Situation situation;
  situation.options.nproc_per_node = 2;
  situation.options.min_nodes = situation.options.max_nodes = 2;
  situation.options.rdzv_endpoint = "a:29400";
  const std::string text = describe(situation.plan());
  CHECK(text.find("WORLD_SIZE=4") == std::string::npos);
  CHECK(text.find(" WORLD_SIZE=") == std::string::npos);
  CHECK(text.find("GROUP_RANK=") == std::string::npos);
  CHECK(text.find("LOCAL_WORLD_SIZE=2") != std::string::npos);
  CHECK(text.find("witness") == std::string::npos);
  situation.options.max_restarts = 1;
  situation.options.witness = "/shared/w";
  CHECK_THAT(describe(situation.plan()), Catch::Contains("witness      /shared/w\n"));
  CHECK(describe_json(situation.plan()).find("\"WORLD_SIZE\": null") != std::string::npos);
}

TEST_CASE("the JSON plan equals the golden file") {
  Situation situation;
  situation.options.nproc_per_node = 2;
  check_golden("plan_two_gpus.json", describe_json(situation.plan()));
}

TEST_CASE("the plan shows whether workers can be forked") {
  Situation situation;
  situation.options.preload = "torch";
  CHECK(describe(situation.plan()).find("\npreload      torch, but workers are started: ./train is not") !=
        std::string::npos);
  situation.options.preload = kPreloadAuto;  // which is for programs of Python
  CHECK(describe(situation.plan()).find("preload") == std::string::npos);
}

TEST_CASE("a name that is not UTF-8 can be shown in JSON") {
  Situation situation;
  situation.options.command = {"./train", "\xff\xfe"};
  CHECK(describe_json(situation.plan()).find("\\ufffd\\ufffd") != std::string::npos);
}

TEST_CASE("the printed plan masks secrets, and the workers still get them") {
  Situation situation;
  situation.options.command = {"./train", "--auth", "mellon", "https://u:mellon@host/x", "--lr=1"};
  const LaunchPlan plan = situation.plan();
  for (const std::string& text : {describe(plan), describe_json(plan)}) {
    CHECK(text.find("mellon") == std::string::npos);
    CHECK(text.find("https://u:***@host/x") != std::string::npos);
    CHECK(text.find("--lr=1") != std::string::npos);
  }
  CHECK(plan.arguments == situation.options.command);
}
