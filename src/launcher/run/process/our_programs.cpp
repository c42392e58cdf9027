#include "launcher/run/process/our_programs.h"

#include <unistd.h>

#include <array>

namespace ddp::launcher {

std::string our_folder() {
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string path(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return path.substr(0, path.rfind('/'));
}

std::string our_program(const std::string& name) {
  const std::string folder = our_folder();
  const std::string near = folder + "/" + name;
  return ::access(near.c_str(), X_OK) == 0 ? near : folder + "/" DDP_LIBEXEC_FROM_BIN "/" + name;
}

}  // namespace ddp::launcher
