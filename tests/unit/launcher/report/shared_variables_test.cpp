#include "launcher/report/shared_variables.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

TEST_CASE("only variables that matter for a distributed job are shared, without secrets") {
  CHECK(shared_variables(Words{"PATH=/bin", "NCCL_DEBUG=INFO", "HF_TOKEN=abc", "DDP_AUTH_TOKEN=abc", "TORCH_HOME=/t",
                               "SLURM_JWT=abc", "NCCL_", "CUDA_VISIBLE_DEVICES=0,1", "OMP_NUM_THREADS=4=5"}) ==
        Words{"CUDA_VISIBLE_DEVICES=0,1", "DDP_AUTH_TOKEN=***", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=4=5",
              "SLURM_JWT=***", "TORCH_HOME=/t"});
}
