#include "bench/bench_options.h"

#include "support/command_line.h"

using namespace ddp::launcher;
using ddp::bench::BenchOptions;
using ddp::bench::parse_bench_options;

namespace {

// Returns the options that ddp_bench reads from its arguments.
BenchOptions read(const Words& words) {
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_bench_options(static_cast<int>(argv.size()), argv.data()).value();
}

}  // namespace

TEST_CASE("ddplaunch bench starts a job that runs ddp_bench") {
  const Options options = parsed_as({"bench", "--nproc-per-node=3", "all_reduce", "broadcast", "--sizes", "4K"});
  CHECK(options.nproc_per_node == 3);
  CHECK(options.log.level == LogLevel::warning);
  CHECK(options.tag == "");
  CHECK(options.subcommand == "bench");
  CHECK(options.command == Words{"ddp_bench", "all_reduce", "broadcast", "--sizes", "4K"});
}

TEST_CASE("options of the launcher and of the benchmark may be mixed in any order") {
  const Options options =
      parsed_as({"bench", "--max-bytes=1M", "--nproc_per_node", "2", "--json", "--step_factor", "2"});
  CHECK(options.nproc_per_node == 2);
  CHECK_FALSE(options.json);
  CHECK(options.command == Words{"ddp_bench", "--max-bytes", "1M", "--step-factor", "2", "--json"});
  CHECK(parsed_as({"bench", "--tag=x"}).tag == "x");
  // The words are sent to other nodes in this form.
  CHECK(parsed_as({"bench", "--", "all_reduce", "--sizes", "4K"}).command ==
        Words{"ddp_bench", "all_reduce", "--sizes", "4K"});
}

TEST_CASE("ddplaunch bench without arguments measures all operations") {
  CHECK(parsed_as({"bench"}).command == Words{"ddp_bench"});
  CHECK(parsed_as({"./bench"}).subcommand.empty());
  CHECK(read({"ddp_bench"}).operations.size() == 5);
}

TEST_CASE("ddp_bench accepts the arguments that the launcher has checked") {
  const BenchOptions options =
      read(parsed_as({"bench", "--sizes=4,1K,300K", "all_to_all", "--iterations=3", "--seconds=0.5", "--own-buffers",
                      "--no-check", "--json", "--min-bytes=16", "--max-bytes=1GiB", "--step-factor=2"})
               .command);
  CHECK(options.sizes == std::vector<std::size_t>{4, 1024, 307'200});
  CHECK(options.operations == Words{"all_to_all"});
  CHECK(options.iterations == 3);
  CHECK(options.seconds == 0.5);
  CHECK(options.min_bytes == 16);
  CHECK(options.max_bytes == std::size_t{1} << 30);
  CHECK(options.factor == 2);
  CHECK((options.own_buffers && options.no_check && options.json));
}

TEST_CASE("the duration of a benchmark may have units") {
  CHECK(read({"ddp_bench", "--seconds", "0.1"}).seconds == 0.1);
  CHECK(read({"ddp_bench", "--seconds", "500ms"}).seconds == 0.5);
}

TEST_CASE("the launcher rejects benchmark options that ddp_bench would reject") {
  struct Row {
    Words words;
    const char* message;
  };
  const std::vector<Row> rows = {
      {{"--sizes=4X"}, "--sizes: '4X' is not a size such as 8, 4K, 25M, of at most 1024G. See ddplaunch bench --help"},
      {{"--sizes", "4,,5"}, "--sizes: '' is not a size"},
      {{"--sizes=99999999999999999999"}, "--sizes: '99999999999999999999' is not a size"},
      {{"--min-bytes", "-5"}, "--min-bytes: '-5' is not a size"},
      {{"--min-bytes=8", "--max-bytes=4"}, "--min-bytes 8 is more than --max-bytes 4. See"},
      {{"--seconds", "-1"}, "--seconds: '-1' is not a time from 0.001 s up, such as 0.5, 500ms or 10m"},
      {{"--iterations=0"}, "--iterations: '0' is not a number from 1 up"},
      {{"--step-factor=1"}, "--step-factor: '1' is not a number from 2 up"},
      {{"gather"}, "unknown operation 'gather'"},
      {{"--size=4K"}, "unknown option --size. Did you mean --sizes?"},
      {{"--sizes"}, "--sizes needs a value: --sizes=N,N,...."},
  };
  for (const Row& row : rows) {
    Words words = row.words;
    words.insert(words.begin(), "bench");
    CHECK_THAT(mistake(words), Catch::StartsWith(row.message));
  }
  CHECK_THROWS_WITH(read({"ddp_bench", "--sizes", "4X"}), Catch::StartsWith("--sizes: '4X' is not a size"));
  CHECK_THROWS_WITH(read({"ddp_bench", "gather"}), "unknown operation 'gather'");
}

TEST_CASE("benchmark options are read from the command line only") {
  std::vector<const char*> argv = {"ddplaunch", "bench"};
  const Words environment = {"PET_SIZES=4K"};
  const auto command = parse_command_line(2, argv.data(), environment);
  CHECK(std::get<Options>(command).command == Words{"ddp_bench"});
  CHECK(std::get<Options>(command).warnings.at(0).starts_with("PET_SIZES has no effect"));
}

TEST_CASE("a benchmark repeats a group of measurements as often as all of them fit into the time") {
  using ddp::bench::iterations_within;
  CHECK(iterations_within(0.3, 1000, 1) == 300);
  CHECK(iterations_within(0.3, 1000, 20) == 15);
  CHECK(iterations_within(0.3, 1e6, 20) == 5);
  CHECK(iterations_within(10, 0, 20) == 20'000);
}
