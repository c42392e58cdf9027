#include "launcher/cli/bench_words.h"

#include <catch2/catch.hpp>

#include "launcher/cli/parse.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

Options parsed(const Words& words) {
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const auto command = parse_command_line(static_cast<int>(argv.size()), argv.data(), {});
  REQUIRE(std::holds_alternative<Options>(command));
  return std::get<Options>(command);
}

}  // namespace

TEST_CASE("the options of a benchmark follow those of the launcher") {
  const Words words = {"--nproc-per-node", "2", "--max-bytes", "1M", "--json"};
  const BenchWords split = split_bench_words(words);
  CHECK(split.launcher == Words{"--quiet", "--no-tag", "--nproc-per-node", "2"});
  CHECK(split.program == Words{"--max-bytes", "1M", "--json"});
}

TEST_CASE("a benchmark is a job of a program of ours") {
  const Options options =
      parsed({"ddplaunch", "bench", "--nproc-per-node=3", "all_reduce", "broadcast", "--sizes", "4K"});
  CHECK(options.nproc_per_node == 3);
  CHECK(options.quiet);
  CHECK(options.bench);
  CHECK(options.command == Words{"ddp_bench", "all_reduce", "broadcast", "--sizes", "4K"});
}

TEST_CASE("a benchmark without any words measures everything") {
  const Options options = parsed({"ddplaunch", "bench"});
  CHECK(options.command == Words{"ddp_bench"});
  CHECK_FALSE(parsed({"ddplaunch", "./bench"}).bench);
}
