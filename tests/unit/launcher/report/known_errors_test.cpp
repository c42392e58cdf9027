#include "launcher/report/known_errors.h"

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("errors that come from how a Python program was started have a remedy") {
  LaunchPlan plan;
  plan.program = "/usr/bin/python3";
  CHECK_THAT(what_to_try({"    breakpoint()", "[rank0]: bdb.BdbQuit"}, plan), Catch::Contains("--stdin=0"));
  CHECK_THAT(what_to_try({"train.py: error: unrecognized arguments: --local_rank=1"}, plan),
             Catch::Contains("--use-env"));
  CHECK_THAT(what_to_try({"ModuleNotFoundError: No module named 'torch'"}, plan), Catch::Contains("/usr/bin/python3"));
  CHECK_THAT(what_to_try({"ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
                          "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 17000"},
                         plan),
             Catch::Contains("torch.cuda.set_device"));
  CHECK(what_to_try({"ValueError: bad"}, plan).empty());
  CHECK(what_to_try({}, plan).empty());
}
