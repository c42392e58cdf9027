#include "launcher/cli/bench_words.h"

#include <algorithm>
#include <string_view>

namespace ddp::launcher {
namespace {

constexpr std::string_view kBenchOptions[] = {"--min-bytes",   "--max-bytes",  "--step-factor",
                                              "--sizes",       "--iterations", "--seconds",
                                              "--own-buffers", "--no-check",   "--json"};

bool is_bench_option(const std::string& word) {
  return std::find(std::begin(kBenchOptions), std::end(kBenchOptions), word) != std::end(kBenchOptions);
}

}  // namespace

BenchWords split_bench_words(std::span<const std::string> words) {
  const auto first = std::find_if(words.begin(), words.end(), is_bench_option);
  BenchWords result;
  // The table is what is wanted, not who says it.
  result.launcher = {"--quiet", "--no-tag"};
  result.launcher.insert(result.launcher.end(), words.begin(), first);
  result.program.assign(first, words.end());
  return result;
}

std::string bench_help_text() {
  return "Usage: ddplaunch bench [options of ddplaunch] [OPERATION ...] [options]\n"
         "\n"
         "Measures collectives between the workers that the options start, in nccl-tests' columns: time in "
         "microseconds\n"
         "(median over the iterations of the slowest rank, and the least), algbw and busbw in GB/s.\n"
         "Operations: all_reduce broadcast all_gather reduce_scatter all_to_all. Default: all of them.\n"
         "\n"
         "  --min-bytes N       Smallest size: 8, 4K, 1M. Default: 8.\n"
         "  --max-bytes N       Largest size. Default: 256M.\n"
         "  --step-factor N     From size to size. Default: 4.\n"
         "  --sizes N,N,...     These sizes instead.\n"
         "  --iterations N      Of each size. Default: as many as fit into --seconds.\n"
         "  --seconds S         For each size. Default: 0.3.\n"
         "  --own-buffers       The program's own memory, instead of ProcessGroup::allocate's.\n"
         "  --no-check          Do not check the results.\n"
         "  --json              One JSON object a line.\n"
         "\n"
         "Example: ddplaunch bench --nproc-per-node=4 --backend=gloo all_reduce --sizes 4K,1M,25M\n";
}

}  // namespace ddp::launcher
