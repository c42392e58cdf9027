// These are the options of the benchmark. ddp_bench parses them, and `ddplaunch bench` checks them before it starts any
// rank.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddp::bench {

struct BenchOptions {
  std::vector<std::string> operations = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"};
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{256} << 20;
  std::size_t factor = 4;
  std::vector<std::size_t> sizes;  // if empty, from min_bytes to max_bytes by factor
  int iterations = 0;              // if 0, as many as fit into the time
  double seconds = 0.3;
  bool own_buffers = false;  // uses the program's own buffers instead of those of ProcessGroup::allocate
  bool no_check = false;
  bool json = false;
};

// Returns how often a measurement of `calls` calls fits into the time, with limits.
int iterations_within(double seconds, double microseconds_per_call, int calls);

// Declares the options at `app`, which fills `options` when it parses. Both must outlive the parsing. A wrong value
// throws a CLI::ParseError whose text is for the user.
void declare_bench_options(CLI::App& app, BenchOptions& options);

// Returns the options that `app` has parsed, as words for ddp_bench.
std::vector<std::string> bench_words(const CLI::App& app);

// Parses the arguments of ddp_bench. Prints the help and returns std::nullopt if the user asks for it. Throws
// std::invalid_argument for a user's mistake.
std::optional<BenchOptions> parse_bench_options(int argc, const char* const* argv);

}  // namespace ddp::bench
