#include "launcher/remote/forwarded_environment.h"

#include <algorithm>

#include "support/catch.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

Lines forwarded(const Lines& environment, const Lines& requests = {}) {
  auto result = forwarded_environment(environment, requests);
  if (!result) FAIL(result.error().message);
  Lines lines = std::move(result).value();
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("what such programs are set up with goes to the hosts, and nothing else") {
  CHECK(forwarded({"DDP_DEBUG=detail", "NCCL_DEBUG=INFO", "GLOO_X=1", "UCX_TLS=tcp", "OMP_NUM_THREADS=2",
                   "TORCH_LOGS=x", "PATH=/bin", "LD_LIBRARY_PATH=/l", "PYTHONPATH=/p", "VIRTUAL_ENV=/v"})
            .size() == 10);
  CHECK(forwarded({"HOME=/h", "PATHS=x", "TORCHELASTIC_RUN_ID=7", "RANK=1", "MASTER_ADDR=a", "PET_GRACE=3",
                   "CUDA_VISIBLE_DEVICES=1", "DDP_AUTH_TOKEN=secret", "DDP_BOARD_FD=197", "DDP_ATTEMPT=1",
                   "DDP_LAST_FAILURE=x", "SSH_AUTH_SOCK=/s"})
            .empty());
}

TEST_CASE("more are forwarded by name, by their beginning, or with a value") {
  const Lines here = {"AB=1", "AC=2", "B=3", "CUDA_VISIBLE_DEVICES=1", "PATH=/bin"};
  CHECK(forwarded(here, {"B"}) == Lines{"B=3", "PATH=/bin"});
  CHECK(forwarded(here, {"A*"}) == Lines{"AB=1", "AC=2", "PATH=/bin"});
  CHECK(forwarded(here, {"NEW=x=y", "PATH=/other"}) == Lines{"NEW=x=y", "PATH=/other"});
  CHECK(forwarded(here, {"CUDA_VISIBLE_DEVICES"}).front() == "CUDA_VISIBLE_DEVICES=1");
  CHECK(forwarded(here, {"NONE_*"}) == Lines{"PATH=/bin"});
}

TEST_CASE("the token is never forwarded, and a name without a variable is a mistake") {
  CHECK(forwarded({"DDP_AUTH_TOKEN=secret"}, {"DDP_*", "DDP_AUTH_TOKEN"}).empty());
  const auto result = forwarded_environment(Lines{"A=1"}, Lines{"B"});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message.starts_with("--forward-env=B: there is no such variable here."));
}
