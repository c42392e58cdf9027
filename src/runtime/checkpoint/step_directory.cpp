#include "runtime/checkpoint/step_directory.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/host_name.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"
#include "runtime/checkpoint/checkpoint_file.h"

namespace ddp::internal {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);

std::string owner_in(int fd) {
  std::array<char, 200> text{};
  const ssize_t got = base::uninterrupted([&] { return ::pread(fd, text.data(), text.size(), 0); });
  return got > 0 ? base::printable(std::string(text.data(), static_cast<std::size_t>(got))) : "an unknown process";
}

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kWriting = ".writing-";
constexpr std::string_view kRemoving = ".removing-";
constexpr int kDigits = 12;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

[[noreturn]] void fail_in_directory(const std::string& action, const std::string& path, int error) {
  throw Error(ErrorKind::unavailable, "cannot " + action + " " + path + ": " + std::strerror(error));
}

void remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail_in_directory("remove", path, error.value());
}

std::vector<std::string> list(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto entry = std::filesystem::directory_iterator(directory, error);
       !error && entry != std::filesystem::end(entry); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) fail_in_directory("list", directory, error.value());
  return names;
}

// Gives the staged step its final name. An old step of that name is exchanged with it and then removed. Some file
// systems cannot exchange names; there, the old step is removed first.
void rename_over(const std::string& staged, const std::string& final_path) {
  if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, final_path.c_str(), RENAME_NOREPLACE) == 0) return;
  const auto rename_there = [&] {
    return base::uninterrupted([&] { return ::rename(staged.c_str(), final_path.c_str()); }) == 0;
  };
  if (rename_there()) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_in_directory("name", final_path, errno);
  if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) != 0) {
    remove_tree(final_path);
    if (!rename_there()) fail_in_directory("name", final_path, errno);
    return;
  }
  remove_tree(staged);
}

}  // namespace

std::string step_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return std::string(kPrefix) + digits;
}

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::string_view digits = name.substr(kPrefix.size());
  if (digits.size() < kDigits) return std::nullopt;
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const auto step = base::parse_integer(digits, 0, INT64_MAX);
  return step && step_name(*step) == name ? step : std::nullopt;
}

std::string staging_name(std::int64_t step) {
  return std::string(kWriting) + step_name(step);
}

void make_directory(const std::string& path) {
  struct stat status {};
  if (base::uninterrupted([&] { return ::mkdir(path.c_str(), 0777); }) == 0) return;
  const int error = errno;
  if (error == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
  fail_in_directory("make directory", path, error == EEXIST ? ENOTDIR : error);
}

std::vector<std::int64_t> list_steps(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : list(directory)) {
    if (const auto step = parse_step_name(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::uint64_t file_bytes(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_in_directory("inspect", path, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void write_text_file(const std::string& path, std::string_view text) {
  const base::UniqueFd file(
      base::uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); }));
  if (!file) fail_in_directory("write", path, errno);
  while (!text.empty()) {
    const ssize_t written = base::uninterrupted([&] { return ::write(file.get(), text.data(), text.size()); });
    if (written < 0) fail_in_directory("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (base::uninterrupted([&] { return ::fsync(file.get()); }) != 0) fail_in_directory("write", path, errno);
}

std::string read_text_file(const std::string& path, std::size_t limit) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const base::UniqueFd file(
      base::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) fail_in_directory("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorKind::corrupt, "it is not a regular file");
  std::string text;
  for (ssize_t got = 1; got > 0;) {
    const std::size_t begin = text.size();
    if (begin > limit) throw Error(ErrorKind::corrupt, "it has more than " + std::to_string(limit) + " bytes");
    text.resize(begin + kReadBytes);
    got = base::uninterrupted([&] { return ::read(file.get(), text.data() + begin, kReadBytes); });
    if (got < 0) fail_in_directory("read", path, errno);
    text.resize(begin + static_cast<std::size_t>(got));
  }
  return text;
}

void commit_step(const std::string& directory, std::int64_t step, const std::set<std::string>& names) {
  const std::string staged = directory + "/" + staging_name(step);
  for (const std::string& name : list(staged)) {
    if (!names.contains(name)) remove_tree(staged + "/" + name);
  }
  flush_directory_of(staged + "/.");
  const std::string final_path = directory + "/" + step_name(step);
  rename_over(staged, final_path);
  flush_directory_of(final_path);
}

void discard_staged(const std::string& directory, std::int64_t step) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(directory + "/" + staging_name(step), ignored);
}

void remove_step(const std::string& directory, std::int64_t step) {
  const std::string path = directory + "/" + step_name(step);
  const std::string doomed = directory + "/" + std::string(kRemoving) + step_name(step);
  remove_tree(doomed);
  if (base::uninterrupted([&] { return ::rename(path.c_str(), doomed.c_str()); }) != 0)
    fail_in_directory("remove", path, errno);
  remove_tree(doomed);
}

void remove_leftovers(const std::string& directory) {
  for (const std::string& name : list(directory)) {
    const bool is_leftover = name.starts_with(std::string(kWriting) + std::string(kPrefix)) ||
                             name.starts_with(std::string(kRemoving) + std::string(kPrefix));
    if (is_leftover) remove_tree(directory + "/" + name);
  }
}

DirectoryLock::DirectoryLock(const std::string& directory, std::chrono::milliseconds patience)
    : path_(directory + "/.lock") {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    fd_.reset(base::uninterrupted(
        [this] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); }));
    if (!fd_) throw Error(ErrorKind::unavailable, "cannot open " + path_ + ": " + std::strerror(errno));
    const bool is_locked = base::uninterrupted([this] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) == 0;
    // Between open and flock, the owner may have removed the file. Then this process has locked a file without a name.
    if (is_locked && is_file_at(path_, fd_.get())) break;
    if (!is_locked && errno != EWOULDBLOCK) {
      std::fprintf(stderr, "ddp: note: cannot lock %s (%s), so a second job that saves there is not noticed\n",
                   directory.c_str(), std::strerror(errno));
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::unavailable,
                  "another job saves checkpoints into " + directory + " (" + owner_in(fd_.get()) +
                      "). Give each job a directory of its own. If that process has ended, or its node has failed, "
                      "remove " +
                      path_ + ".");
    }
    std::this_thread::sleep_for(kPoll);
  }
  const std::string owner = "pid " + std::to_string(::getpid()) + " on " + base::host_name();
  // The text is only for messages.
  if (::ftruncate(fd_.get(), 0) != 0 || ::pwrite(fd_.get(), owner.data(), owner.size(), 0) < 0) return;
}

DirectoryLock::~DirectoryLock() {
  if (is_file_at(path_, fd_.get())) ::unlink(path_.c_str());
}

}  // namespace ddp::internal
