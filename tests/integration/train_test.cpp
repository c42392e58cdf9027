// Tests a training job end to end: launcher, store, runtime, backend, gradients, checkpoint, report.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "support/catch.h"
#include "support/paths.h"
#include "support/run_command.h"
#include "support/temporary_directory.h"

namespace {

class Training {
 public:
  std::string checkpoint(const std::string& name) const { return directory_.path() + "/" + name + ".safetensors"; }

  CommandResult run(int ranks, const std::string& name, std::vector<std::string> options,
                    const std::map<std::string, std::string>& environment = {}) const {
    std::vector<std::string> words = {built("ddplaunch"),
                                      "--nproc_per_node=" + std::to_string(ranks),
                                      "--tag=",
                                      "--backend=gloo",
                                      built("train_charlm"),
                                      "--text",
                                      text_,
                                      "--checkpoint",
                                      checkpoint(name)};
    words.insert(words.end(), options.begin(), options.end());
    return run_command(std::move(words), environment);
  }

 private:
  TemporaryDirectory directory_;
  // Falls back to a text that every checkout has, if the system's copy of the GPL is missing.
  std::string text_ = std::filesystem::exists("/usr/share/common-licenses/GPL-3")
                          ? "/usr/share/common-licenses/GPL-3"
                          : ddp::test::source_directory() + "/LICENSE";
};

// Returns the data of a safetensors file, which follows the length word and the header. Tensors are in the order of
// saving.
std::vector<double> read_data(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<double> values((bytes.size() - 8 - header) / sizeof(double));
  std::memcpy(values.data(), bytes.data() + 8 + header, values.size() * sizeof(double));
  return values;
}

std::string line_with(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(word) != std::string::npos) return line;
  }
  FAIL("no line with " << word << " in:\n" << text);
  return "";
}

}  // namespace

TEST_CASE("the trained model is better than the best bigram table", "[slow]") {
  const Training training;
  const CommandResult result = training.run(2, "a", {"--epochs", "4"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  double model = 0;
  double bigram = 0;
  REQUIRE(std::sscanf(line_with(result.out, "validation").c_str(), "validation   perplexity %lf; best bigram table %lf",
                      &model, &bigram) == 2);
  CHECK(model < 0.75 * bigram);
  CHECK(model > 2);
  line_with(result.out, "the same on all ranks");
  CHECK(line_with(result.err, "ddp: backend").starts_with("ddp: backend gloo, 2 ranks (requested)"));
}

TEST_CASE("training on two and four ranks gives the parameters of one rank after fifty steps") {
  const Training training;
  for (const int ranks : {1, 2, 4}) {
    const CommandResult result = training.run(ranks, std::to_string(ranks), {"--steps", "50"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    line_with(result.out, "the same on all ranks");
  }
  const std::vector<double> one = read_data(training.checkpoint("1"));
  for (const char* ranks : {"2", "4"}) {
    const std::vector<double> many = read_data(training.checkpoint(ranks));
    REQUIRE(many.size() == one.size());
    double worst = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double scale = std::max(std::abs(one[i]), 1e-300);
      if (one[i] != many[i]) worst = std::max(worst, std::abs(one[i] - many[i]) / scale);
    }
    INFO(ranks << " ranks, worst relative difference " << worst);
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("a resumed training ends with the same parameters as an uninterrupted one") {
  const Training training;
  REQUIRE(training.run(2, "whole", {"--steps", "30"}).exit_code == 0);
  REQUIRE(training.run(2, "parts", {"--steps", "13"}).exit_code == 0);
  const CommandResult resumed = training.run(2, "parts", {"--steps", "30", "--resume"});
  REQUIRE(resumed.exit_code == 0);
  CHECK(resumed.out.find("at step 13") != std::string::npos);
  CHECK(read_data(training.checkpoint("whole")) == read_data(training.checkpoint("parts")));
}

TEST_CASE("a checkpoint can be resumed on another number of ranks") {
  const Training training;
  REQUIRE(training.run(1, "a", {"--steps", "10"}).exit_code == 0);
  CHECK(training.run(4, "a", {"--steps", "20", "--resume"}).exit_code == 0);
}

TEST_CASE("a worker's own usage error is shown and its exit code is kept") {
  const Training training;
  const CommandResult none = training.run(2, "none", {"--steps", "2", "--resume"});
  CHECK(none.exit_code == 1);
  CHECK(none.err.find("none.safetensors: No such file") != std::string::npos);

  REQUIRE(training.run(2, "a", {"--steps", "2"}).exit_code == 0);
  const CommandResult other = training.run(2, "a", {"--steps", "4", "--resume", "--seed", "7"});
  CHECK(other.exit_code == 1);
  CHECK(other.err.find("seed was 0 and is now 7") != std::string::npos);

  std::filesystem::resize_file(training.checkpoint("a"), 1000);
  const CommandResult torn = training.run(2, "a", {"--steps", "4", "--resume"});
  CHECK(torn.exit_code == 1);
  CHECK(torn.err.find("damaged") != std::string::npos);

  const CommandResult batch = training.run(3, "b", {"--steps", "2"});
  CHECK(batch.exit_code == 1);
  CHECK(batch.err.find("must be a multiple of the 3 ranks") != std::string::npos);
}

TEST_CASE("a backend that does not exist or does not work on this node is reported") {
  const Training training;
  const CommandResult unknown =
      run_command({built("train_charlm"), "--steps", "1", "--checkpoint", ""}, {{"DDP_BACKEND", "glo"}});
  CHECK(unknown.exit_code == 1);
  CHECK(unknown.err.find("Did you mean gloo?") != std::string::npos);
}

TEST_CASE("a program that runs without a launcher has a world of size one") {
  const CommandResult result = run_command({built("train_charlm"), "--steps", "3", "--checkpoint", "", "--text",
                                            ddp::test::source_directory() + "/LICENSE"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(line_with(result.out, "trained").find("on 1 ranks") != std::string::npos);
  CHECK(result.err.find("1 rank (") != std::string::npos);
}

TEST_CASE("a rank that dies during training is named as the culprit, and secondary failures are not") {
  const Training training;
  // Rank 1 is killed from outside the program around the beginning of the training.
  for (int round = 0; round < 5; ++round) {
    const CommandResult result =
        run_command({built("ddplaunch"), "--nproc-per-node=3", "--tag=", "--backend=gloo", "sh", "-c",
                     "[ $RANK = 1 ] && { sleep 0.3; kill -KILL $$; } & exec " + built("train_charlm") +
                         " --epochs 1000 --batch 129 --checkpoint ''"});
    INFO(result.err);
    CHECK(result.exit_code == 137);
    CHECK(result.err.find("rank 1 (pid") != std::string::npos);
  }
}

TEST_CASE("a job whose attempts each finish a step is restarted --max-restarts times") {
  const CommandResult result =
      run_command({built("ddplaunch"), "--nproc-per-node=1", "--backend=cpu", "--max-restarts=7", "sh", "-c",
                   built("train_charlm") + " --checkpoint '' --steps 1 --text " + ddp::test::source_directory() +
                       "/LICENSE; exit 3"});
  CHECK(result.exit_code == 3);
  CHECK(line_with(result.err, "gave up").find("ddplaunch gave up after 7 restarts") != std::string::npos);
}

TEST_CASE("the model learns with every gradient exchange, and with local SGD", "[slow]") {
  const Training training;
  const auto perplexity_with = [&](const std::vector<std::string>& words, double& bytes) {
    std::vector<std::string> options = {"--epochs", "2"};
    options.insert(options.end(), words.begin(), words.end());
    const CommandResult result = training.run(2, "a", options);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    double model = 0;
    double bigram = 0;
    REQUIRE(std::sscanf(line_with(result.out, "validation").c_str(),
                        "validation   perplexity %lf; best bigram table %lf", &model, &bigram) == 2);
    CHECK(model < 0.95 * bigram);
    line_with(result.out, "the same on all ranks");
    const std::size_t sent = result.out.find(" gradients, ");
    bytes = sent == std::string::npos ? 0 : std::stod(result.out.substr(sent + std::strlen(" gradients, ")));
    return model;
  };
  double mean_bytes = 0;
  const double mean = perplexity_with({}, mean_bytes);
  // A hook sends this share of the bytes (of f64), and may make the model's perplexity worse by this factor.
  struct Expected {
    const char* hook;
    double bytes;
    double perplexity;
  };
  for (const Expected& expected :
       {Expected{"f16", 0.26, 1.02}, Expected{"bf16", 0.26, 1.02}, Expected{"power-sgd", 0.12, 1.15},
        Expected{"top-k", 0.06, 1.15}, Expected{"one-bit", 0.02, 1.2}}) {
    INFO(expected.hook);
    double bytes = 0;
    CHECK(perplexity_with({"--hook", expected.hook}, bytes) < expected.perplexity * mean);
    CHECK(bytes <= expected.bytes * mean_bytes);
  }
  double none = 0;
  CHECK(perplexity_with({"--local-steps", "4"}, none) < 1.2 * mean);
  CHECK(none == 0);
}
