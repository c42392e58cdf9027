#include "base/secrets.h"

#include "support/catch.h"

using namespace ddp::base;
using Words = std::vector<std::string>;

TEST_CASE("names of secret variables are recognised, and similar names are not") {
  for (const char* name : {"HF_TOKEN", "DDP_AUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "--api-key",
                           "password", "--db.password", "GITHUBTOKEN", "SSH_KEYS", "SLURM_JWT", "--auth",
                           "REGISTRY_AUTH", "PGPASSWORD", "DB_PASS", "Authorization", "X-Api-Key"}) {
    CAPTURE(name);
    CHECK(is_secret(name));
  }
  for (const char* name : {"NCCL_DEBUG", "TOKENIZERS_PARALLELISM", "--max-tokens", "KEYBOARD", "MONKEY", "AUTHOR",
                           "--auth-token-file", "TORCH_KEYED", "SSH_AUTH_SOCK", "--bypass", "--num-passes", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_secret(name));
  }
}

TEST_CASE("secrets within a text are masked") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"HF_TOKEN=abc def", "HF_TOKEN=***"},
      {"--password=a=b", "--password=***"},
      {"--auth=abc", "--auth=***"},
      {"HTTPS_PROXY=http://user:pass@proxy:3128/x", "HTTPS_PROXY=http://user:***@proxy:3128/x"},
      {"postgresql://u:p@ss@db:5432/x", "postgresql://u:***@db:5432/x"},
      {"git clone https://abc@github.com/x", "git clone https://***@github.com/x"},
      {"ssh://git@host/x", "ssh://git@host/x"},
      {"http://host:80/a@b:c", "http://host:80/a@b:c"},
      {"https://s3/x?token=abc&part=1", "https://s3/x?token=***&part=1"},
      {"Authorization: Basic dXNlcg==", "Authorization: ***"},
      {"use Bearer abc.def now", "use Bearer *** now"},
      {"bearer", "bearer"},
      {"export WANDB_API_KEY='abc'; python train.py --api-key abc --lr 1",
       "export WANDB_API_KEY='***'; python train.py --api-key *** --lr 1"},
      {"{\"api_key\": \"abc\", \"lr\": 1}", "{\"api_key\": \"***\", \"lr\": 1}"},
      {"hf_abcdefghijklmnopqrstuvwxyz", "***"},
      {"sk-learn", "sk-learn"},
      {"python train.py --lr=1 --max-tokens=8", "python train.py --lr=1 --max-tokens=8"},
      {"--auth-token-file=/t", "--auth-token-file=/t"},
      {"caf\xe9 \xff", "caf\xe9 \xff"},
      {"", ""},
  };
  for (const auto& [text, shown] : cases) CHECK(without_secrets(text) == shown);
  CHECK(without_secrets("SLURM_JWT", "abc") == "***");
  CHECK(without_secrets("X", "amqp://a:b@c") == "amqp://a:***@c");
}

TEST_CASE("values of secrets on a command line are masked") {
  CHECK(without_secrets(Words{"ddplaunch", "--auth-token-file=/t", "--auth-token-file", "/t", "train.py", "--lr=1",
                              "--api-key", "abc", "--password=abc", "HF_TOKEN=abc", "--token", "--epochs", "3",
                              "--auth", "abc", "Bearer", "abc", "-H", "Authorization: Bearer abc"}) ==
        Words{"ddplaunch", "--auth-token-file=/t", "--auth-token-file", "/t", "train.py", "--lr=1", "--api-key", "***",
              "--password=***", "HF_TOKEN=***", "--token", "--epochs", "3", "--auth", "***", "Bearer", "***", "-H",
              "Authorization: ***"});
}
