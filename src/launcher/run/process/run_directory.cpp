#include "launcher/run/process/run_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "launcher/run/process/process_texts.h"

namespace ddp::launcher {

namespace fs = std::filesystem;

namespace {

// The longest name of a socket; attempts and ranks have at most 6 digits.
constexpr std::string_view kLongestSocket = "attempt_999999_999999_torch.sock";

}  // namespace

RunDirectory::RunDirectory(const RunFiles& files, const std::string& run_id, std::vector<std::string> socket_roots) {
  if (files.kind == RunFiles::Kind::none) return;
  temporary_ = files.kind == RunFiles::Kind::temporary;
  if (!socket_roots.empty()) sockets_.emplace(std::move(socket_roots));
  if (temporary_) {
    private_.emplace(std::vector{temporary_root()});
    return;
  }
  std::string name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  // The path is absolute, because a worker may change its directory.
  std::error_code ignored;
  const std::string random = base::hex64(base::random64()).substr(0, 12);
  path_ = (fs::absolute(files.log_dir, ignored) / (name + "_" + random)).string();
}

std::optional<base::Failure> RunDirectory::make() {
  if (private_) {
    if (const auto failure = private_->make()) return base::Failure{no_temporary_directory_text(failure->message)};
    path_ = private_->path();
  }
  if (path_.empty()) return std::nullopt;
  if (sockets_) find_place_for_sockets();
  if (private_) return std::nullopt;
  std::error_code error;
  const fs::path parent = fs::path(path_).parent_path();
  fs::create_directories(parent, error);
  if (error) return base::Failure{no_log_directory_text(parent.string(), error.message())};
  if (::mkdir(path_.c_str(), 0777) == 0) return std::nullopt;
  return base::Failure{no_log_directory_text(path_, std::strerror(errno))};
}

void RunDirectory::find_place_for_sockets() {
  const auto check = [](const std::string& path) { return check_for_sockets(path, kLongestSocket.size()); };
  if (private_ && !check(path_)) {
    socket_path_ = path_;
    return;
  }
  socket_failure_ = sockets_->make(check);
  socket_path_ = sockets_->path();
}

std::optional<base::Failure> RunDirectory::begin_attempt(int attempt, int workers) {
  attempt_ = attempt;
  std::error_code error;
  for (int local_rank = 0; local_rank < workers && !path_.empty() && !temporary_ && !error; ++local_rank) {
    fs::create_directories(fs::path(file(local_rank, "x")).parent_path(), error);
  }
  if (error) return base::Failure{no_directory_in_text(path_, error.message())};
  return std::nullopt;
}

std::string RunDirectory::attempt_file(const std::string& name) const {
  return path_.empty() ? "" : path_ + "/attempt_" + std::to_string(attempt_) + separator() + name;
}

std::string RunDirectory::file(int local_rank, const std::string& name) const {
  return attempt_file(std::to_string(local_rank) + separator() + name);
}

std::string RunDirectory::torch_file(int local_rank) const {
  if (socket_path_.empty()) return "";
  return socket_path_ + "/attempt_" + std::to_string(attempt_) + "_" + std::to_string(local_rank) + "_torch";
}

void RunDirectory::remove_if_temporary() {
  if (private_) private_->remove();
  if (sockets_) sockets_->remove();
}

}  // namespace ddp::launcher
