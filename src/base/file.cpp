#include "base/file.h"

#include <fstream>
#include <sstream>

namespace ddp::base {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ddp::base
