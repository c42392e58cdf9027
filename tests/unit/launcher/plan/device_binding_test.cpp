#include "launcher/plan/device_binding.h"

#include <catch2/catch.hpp>

using namespace ddp::launcher;
using Names = std::vector<std::string>;
using Bindings = std::vector<std::optional<std::string>>;

TEST_CASE("more workers than GPUs is an error that says what to do") {
  const auto result = bind_devices({8, {"0", "1", "2", "3"}, true, false});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message ==
        "8 workers but 4 GPUs (0,1,2,3). Use --nproc-per-node=4, or share GPUs with --oversubscribe.");
}

TEST_CASE("each worker gets its own GPU") {
  CHECK(bind_devices({2, {"0", "3"}, true, false}).value() == Bindings{"0", "3"});
  CHECK(bind_devices({1, {"0", "3"}, true, false}).value() == Bindings{"0"});
}

TEST_CASE("oversubscribed workers share GPUs in turn") {
  CHECK(bind_devices({3, {"4", "5"}, true, true}).value() == Bindings{"4", "5", "4"});
}

TEST_CASE("with visibility all every worker sees all GPUs of the job") {
  CHECK(bind_devices({2, {"0", "3"}, false, false}).value() == Bindings{"0,3", "0,3"});
}

TEST_CASE("without GPUs nothing is bound") {
  CHECK(bind_devices({2, {}, true, false}).value() == Bindings{std::nullopt, std::nullopt});
}

TEST_CASE("an inherited CUDA_VISIBLE_DEVICES is respected") {
  CHECK(visible_gpus(std::nullopt, 3) == Names{"0", "1", "2"});
  CHECK(visible_gpus("2,0", 3) == Names{"2", "0"});
  CHECK(visible_gpus("GPU-5f1c,MIG-77", 3) == Names{"GPU-5f1c", "MIG-77"});
  CHECK(visible_gpus("", 3).empty());
  CHECK(visible_gpus("-1", 3).empty());
}

TEST_CASE("the list of visible GPUs ends where CUDA stops reading it") {
  CHECK(visible_gpus("1,7,0", 3) == Names{"1"});
  CHECK(visible_gpus("1,-1,0", 3) == Names{"1"});
  CHECK(visible_gpus("0", 0).empty());
}
