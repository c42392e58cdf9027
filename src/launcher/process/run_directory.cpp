#include "launcher/process/run_directory.h"

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ddp::launcher {

namespace fs = std::filesystem;

base::Result<std::unique_ptr<RunDirectory>> RunDirectory::create(int workers) {
  const char* base_directory = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  std::string path = (base_directory != nullptr && *base_directory != '\0' ? std::string(base_directory) : "/tmp") +
                     "/ddplaunch-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return base::Failure{"cannot make the temporary directory " + path + ": " + std::strerror(errno) +
                         ". Set TMPDIR to a directory that can be written."};
  }
  std::unique_ptr<RunDirectory> directory(new RunDirectory(path));
  for (int local_rank = 0; local_rank < workers; ++local_rank) {
    std::error_code error;
    fs::create_directories(fs::path(directory->error_file(local_rank)).parent_path(), error);
    if (error) return base::Failure{"cannot make a directory in " + path + ": " + error.message() + "."};
  }
  return directory;
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string RunDirectory::error_file(int local_rank) const {
  return path_ + "/attempt_0/" + std::to_string(local_rank) + "/error.json";
}

}  // namespace ddp::launcher
