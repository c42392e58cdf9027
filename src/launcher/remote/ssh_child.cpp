#include "launcher/remote/ssh_child.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill and sigset_t are POSIX
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/exit_code.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

struct Pipe {
  base::UniqueFd read;
  base::UniqueFd write;
};

base::Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) == 0) return Pipe{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
  return base::Failure{std::string("cannot make a pipe for ssh: ") + std::strerror(errno)};
}

// In the child. Between fork and execve there are bare system calls only.
[[noreturn]] void become(char* const* words, const std::array<int, 3>& streams, pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(base::kExitOwnFault);
  for (int fd = 0; fd < 3; ++fd) ::dup2(streams[static_cast<std::size_t>(fd)], fd);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(words[0], words);
  const char* const why = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): one thread
  for (const char* text : {"cannot execute ", static_cast<const char*>(words[0]), ": ", why, "\n"}) {
    static_cast<void>(!::write(2, text, std::strlen(text)));
  }
  ::_exit(base::kExitNotFound);
}

}  // namespace

base::Result<std::unique_ptr<SshChild>> SshChild::start(net::EventLoop& loop, const std::vector<std::string>& command,
                                                        Callbacks callbacks) {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  for (const auto* pipe : {&in, &out, &err}) {
    if (!*pipe) return pipe->error();
  }
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execvp's type
  words.push_back(nullptr);

  std::unique_ptr<SshChild> child(new SshChild(loop, std::move(callbacks)));
  const pid_t parent = ::getpid();
  child->pid_ = ::fork();
  if (child->pid_ == 0) {
    become(words.data(), {in.value().read.get(), out.value().write.get(), err.value().write.get()}, parent);
  }
  if (child->pid_ < 0) return base::Failure{std::string("cannot start ssh: ") + std::strerror(errno)};
  child->pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child->pid_, 0)));
  if (!child->pidfd_) return base::Failure{std::string("cannot watch ssh: ") + std::strerror(errno)};
  child->input_ = std::move(in.value().write);
  child->streams_[0].fd = std::move(out.value().read);
  child->streams_[1].fd = std::move(err.value().read);
  for (const int fd : {child->input_.get(), child->streams_[0].fd.get(), child->streams_[1].fd.get()}) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  child->end_watch_ = loop.watch_readable(child->pidfd_.get(), [one = child.get()] { one->reap(); });
  child->arm(0);
  child->arm(1);
  return child;
}

SshChild::~SshChild() {
  if (pid_ < 0) return;
  signal_group(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void SshChild::write_line(const std::string& line) {
  unwritten_ += line + "\n";
  write_some();
}

void SshChild::end() {
  if (pid_ < 0 || kill_) return;
  signal_group(SIGTERM);
  kill_ = loop_.at(std::chrono::steady_clock::now() + limits::kSshEnd, [this] { signal_group(SIGKILL); });
}

void SshChild::resume() {
  for (const int stream : {0, 1}) {
    if (!streams_[static_cast<std::size_t>(stream)].watch) arm(stream);
  }
  finish_if_read();
}

void SshChild::arm(int stream) {
  Stream& one = streams_.at(static_cast<std::size_t>(stream));
  if (!one.fd || !callbacks_.may_read(stream)) return;
  one.watch = loop_.watch_readable(one.fd.get(), [this, stream, &one] {
    const auto spent = std::move(one.watch);
    if (callbacks_.may_read(stream)) read_some(stream);
    arm(stream);
    finish_if_read();
  });
}

bool SshChild::read_some(int stream) {
  Stream& one = streams_.at(static_cast<std::size_t>(stream));
  std::array<char, std::size_t{64} << 10> buffer;
  const ssize_t got = ::read(one.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got <= 0) {
    one.watch.reset();
    one.fd.reset();
    return false;
  }
  callbacks_.read(stream, {buffer.data(), static_cast<std::size_t>(got)});
  return true;
}

void SshChild::write_some() {
  while (input_ && !unwritten_.empty()) {
    const ssize_t written = ::write(input_.get(), unwritten_.data(), unwritten_.size());
    if (written >= 0) {
      unwritten_.erase(0, static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      writable_ = loop_.watch_writable(input_.get(), [this] {
        const auto spent = std::move(writable_);
        write_some();
      });
      return;
    } else if (errno != EINTR) {
      unwritten_.clear();  // it is gone, or about to be: its end tells
    }
  }
}

void SshChild::reap() {
  int status = 0;
  if (::waitpid(pid_, &status, 0) == pid_) {
    status_ = WIFSIGNALED(status) ? base::ExitStatus::killed(WTERMSIG(status))
                                  : base::ExitStatus::exited(WEXITSTATUS(status));
  }
  pid_ = -1;
  end_watch_.reset();
  kill_.reset();
  finish_if_read();
}

// What it has said lies in the pipes. Their end may never come: a connection that ssh shares and leaves behind
// (ControlPersist) has them open, too.
void SshChild::finish_if_read() {
  if (pid_ >= 0 || !callbacks_.ended) return;
  for (const int stream : {0, 1}) {
    Stream& one = streams_.at(static_cast<std::size_t>(stream));
    while (one.fd) {
      if (!callbacks_.may_read(stream)) return;
      if (!read_some(stream)) break;
    }
  }
  for (Stream& one : streams_) {
    one.watch.reset();
    one.fd.reset();
  }
  // The last act: whoever is told may destroy us.
  const auto ended = std::exchange(callbacks_.ended, nullptr);
  ended(status_);
}

void SshChild::signal_group(int signal) const {
  if (pid_ >= 0 && ::kill(-pid_, signal) != 0) ::kill(pid_, signal);
}

}  // namespace ddp::launcher
