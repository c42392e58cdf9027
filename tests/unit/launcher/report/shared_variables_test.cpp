#include "launcher/report/shared_variables.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

TEST_CASE("names of secrets are recognised, and their neighbours are not") {
  for (const char* name : {"HF_TOKEN", "DDP_AUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "--api-key",
                           "password", "--db.password", "GITHUBTOKEN", "SSH_KEYS"}) {
    CAPTURE(name);
    CHECK(is_secret(name));
  }
  for (const char* name : {"NCCL_DEBUG", "TOKENIZERS_PARALLELISM", "--max-tokens", "KEYBOARD", "MONKEY",
                           "--auth-token-file", "TORCH_KEYED", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_secret(name));
  }
}

TEST_CASE("only variables that matter for a distributed job are shared, without secrets") {
  CHECK(shared_variables(Words{"PATH=/bin", "NCCL_DEBUG=INFO", "HF_TOKEN=abc", "DDP_AUTH_TOKEN=abc", "TORCH_HOME=/t",
                               "NCCL_", "CUDA_VISIBLE_DEVICES=0,1", "OMP_NUM_THREADS=4=5"}) ==
        Words{"CUDA_VISIBLE_DEVICES=0,1", "DDP_AUTH_TOKEN=***", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=4=5",
              "TORCH_HOME=/t"});
}

TEST_CASE("the words of a command line are shown without the values of secrets") {
  CHECK(without_secrets(Words{"ddplaunch", "--auth-token-file=/t", "--auth-token-file", "/t", "train.py", "--lr=1",
                              "--api-key", "abc", "--password=abc", "HF_TOKEN=abc", "--token", "--epochs", "3"}) ==
        Words{"ddplaunch", "--auth-token-file=/t", "--auth-token-file", "/t", "train.py", "--lr=1", "--api-key", "***",
              "--password=***", "HF_TOKEN=***", "--token", "--epochs", "3"});
}
