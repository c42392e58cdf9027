#include "base/file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace ddp::base {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_line(const std::string& path) {
  const std::string text = read_file(path);
  return text.substr(0, text.find('\n'));
}

std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  std::filesystem::path file(path);
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const std::filesystem::path target = file.parent_path() / std::filesystem::read_symlink(file, error);
    // Some links of /proc/self/fd point to objects without a path.
    const bool is_link = !error && (std::filesystem::exists(target, error) || !std::filesystem::exists(file, error));
    if (!is_link) return file.string();
    file = target;
  }
  return path;
}

}  // namespace ddp::base
