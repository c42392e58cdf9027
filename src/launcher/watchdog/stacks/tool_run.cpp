// Started with posix_spawn: a tool is no worker, and needs nothing of what they get (docs/decisions/0006-own-spawn.md).
// Whoever reaps orphans reaps it, so it is signalled by its pidfd alone.
#include "launcher/watchdog/stacks/tool_run.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostOutput = std::size_t{4} << 20;

class FileActions {
 public:
  FileActions(int in, int out) {
    ::posix_spawn_file_actions_init(&actions_);
    if (in < 0) {
      ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    } else {
      ::posix_spawn_file_actions_adddup2(&actions_, in, 0);
    }
    ::posix_spawn_file_actions_adddup2(&actions_, out, 1);
    ::posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0);
  }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Default signals, none of them blocked.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

std::optional<std::string> find_tool(const std::string& name) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  for (const std::string& folder : base::split(path == nullptr ? "" : path, ':')) {
    const std::string file = folder + "/" + name;
    if (folder.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

base::UniqueFd file_with(const std::string& bytes) {
  base::UniqueFd file(::memfd_create("ddplaunch", MFD_CLOEXEC));
  for (std::size_t done = 0; file && done < bytes.size();) {
    const ssize_t written = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (written <= 0) return {};
    done += static_cast<std::size_t>(written);
  }
  if (file) ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

ToolRun::ToolRun(net::EventLoop& loop, const std::string& path, const std::vector<std::string>& arguments,
                 std::function<void(std::string output)> done, base::UniqueFd input)
    : loop_(loop), done_(std::move(done)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  base::UniqueFd output(ends[0]);
  const base::UniqueFd to_output(ends[1]);
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> words = {const_cast<char*>(path.c_str())};  // NOLINT: posix_spawn's type
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));  // NOLINT
  words.push_back(nullptr);
  const FileActions actions(input.get(), to_output.get());
  const Attributes attributes;
  pid_t pid = 0;
  if (::posix_spawn(&pid, path.c_str(), actions.get(), attributes.get(), words.data(), environ) != 0) return;
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  output_ = std::move(output);
  watch_ = loop_.keep_watching(output_.get(), [this] { read_some(); });
}

ToolRun::~ToolRun() {
  if (pidfd_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

void ToolRun::read_some() {
  std::array<char, 64 << 10> buffer;
  const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
  if (got > 0 && text_.size() < kMostOutput) text_.append(buffer.data(), static_cast<std::size_t>(got));
  if (got != 0) return;
  watch_.reset();
  // The last act: whoever is told may destroy us.
  const auto done = std::move(done_);
  done(std::move(text_));
}

}  // namespace ddp::launcher
