// The options of the benchmark. ddp_bench parses them, and `ddplaunch bench` checks them before it starts any rank.
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
  std::vector<std::size_t> sizes;  // empty: from min_bytes to max_bytes by factor
  int iterations = 0;              // 0: as many as fit into the time
  double seconds = 0.3;
  bool own_buffers = false;  // instead of those of ProcessGroup::allocate
  bool no_check = false;
  bool json = false;
};

// Declares the options at `app`, which fills `options` when it parses; both outlive the parsing. A wrong value is a
// CLI::ParseError whose text is for the user.
void declare_bench_options(CLI::App& app, BenchOptions& options);

// Returns the words from which ddp_bench reads what `app` has read.
std::vector<std::string> bench_words(const CLI::App& app);

// Reads the words of ddp_bench. Prints the help and returns std::nullopt if that is asked for. Throws
// std::invalid_argument for a user's mistake.
std::optional<BenchOptions> parse_bench_options(int argc, const char* const* argv);

}  // namespace ddp::bench
