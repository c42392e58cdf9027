// What `ddplaunch bench` means: a job whose program measures collectives. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

// The program, without its folder.
inline constexpr const char* kBenchProgram = "ddp_bench";

struct BenchWords {
  std::vector<std::string> launcher;  // options as without "bench"
  std::vector<std::string> program;   // kBenchProgram and what it gets
};

// `words` are those after "bench": options of the launcher first; from the first option of the benchmark on all is the
// benchmark's, as are operations.
BenchWords split_bench_words(std::span<const std::string> words);

std::string bench_help_text();

}  // namespace ddp::launcher
