// fuzz_replay TARGET FOLDER|FILE...: calls the target's function once with every file. Prints the number of files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz_targets.h"

namespace {

int replay(const ddp::fuzz::Target& target, const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) count += replay(target, entry.path());
    return count;
  }
  std::ifstream file(path, std::ios::binary);
  const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return 0;
  target.run(bytes);
  return 1;
}

}  // namespace

int main(int count, char** words) {
  for (const ddp::fuzz::Target& target : ddp::fuzz::kTargets) {
    if (count < 3 || words[1] != target.name) continue;
    int inputs = 0;
    for (int i = 2; i < count; ++i) inputs += replay(target, words[i]);
    std::printf("%s: %d inputs\n", words[1], inputs);
    return inputs > 0 ? 0 : 1;
  }
  std::fprintf(stderr, "usage: %s TARGET FOLDER|FILE...\n", words[0]);
  return 2;
}
