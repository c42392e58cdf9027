#include "launcher/run/process/helper.h"

#include <boost/asio/readable_pipe.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/writable_pipe.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>

#include <array>
#include <optional>
#include <utility>

#include "base/exit_code.h"
#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/run/process/clone_launcher.h"
#include "launcher/run/process/process_texts.h"
#include "net/event_loop_asio.h"

namespace ddp::launcher {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;

// Each operation that is under way owns the process, so that it is reaped also after its Helper is gone.
class Helper::Process : public std::enable_shared_from_this<Process> {
 public:
  Process(net::EventLoopAsio& loop, HelperCallbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}
  // This runs if the loop has ended before the process. The process has been killed before. Unlike the destructor of
  // basic_process, this one does not wait for the process, which may hang in a driver.
  ~Process() { give_up(); }

  error_code start(net::EventLoop& events, const HelperOptions& options) {
    const std::vector<const char*> words = null_terminated(options.command);
    const std::vector<const char*> environment = null_terminated(options.environment);
    CloneLauncher launch;
    if (!options.environment.empty()) launch.env = environment.data();
    launch.request.searches_path = true;
    launch.request.leads_session = is_group_ = options.is_interactive;
    launch.request.death_signal = options.is_interactive ? SIGTERM : SIGKILL;
    const auto run = [&](process_v2::process_stdio streams) {
      for (const error_code& failure : {streams.in.ec, streams.out.ec, streams.err.ec}) {
        if (failure) return failure;
      }
      error_code error;
      process_.emplace(launch(loop_.context.get_executor(), error, words.front(), words.data(), streams));
      return error;
    };
    auto& [output, errors] = streams_;
    if (const error_code error = options.is_interactive ? run({input_, output.pipe, errors.pipe})
                                 : options.input >= 0   ? run({options.input, output.pipe, nullptr})
                                                        : run({nullptr, output.pipe, nullptr})) {
      return error;
    }
    pid_ = process_->id();
    loop_.children.insert(pid_);
    is_running_ = true;
    // Boost's async_wait() would block in waitpid() as long as a debugger holds the ended process.
    end_.reset(launch.pidfd < 0 ? -1 : ::fcntl(launch.pidfd, F_DUPFD_CLOEXEC, 0));
    if (end_) {
      end_watch_ = events.watch_readable(end_.get(), [self = shared_from_this()] { self->check_whether_it_runs(); });
    } else {
      check_whether_it_runs();
    }
    resume();
    return {};
  }

  pid_t pid() const { return pid_; }

  void write_line(const std::string& line) {
    unwritten_ += line + "\n";
    if (being_written_.empty()) write_next();
  }

  void end() {
    if (!is_running_ || is_ending_) return;
    is_ending_ = true;
    signal(SIGTERM);
    kill_timer_.expires_after(limits::kHelperEnd);
    kill_timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->signal(SIGKILL);
    });
  }

  void resume() {
    for (const std::size_t stream : {0, 1}) read_next(stream);
    finish_if_read();
  }

  void abandon() {
    callbacks_ = {};
    signal(SIGKILL);
    close_pipes();
  }

 private:
  struct Stream {
    asio::readable_pipe pipe;
    std::unique_ptr<char[]> buffer =
        std::make_unique_for_overwrite<char[]>(kReadAtOnce);  // NOLINT(modernize-avoid-c-arrays)
    bool is_reading = false;
  };

  // While the process is not reaped, its pid belongs to no other process.
  void signal(int number) const {
    if (!is_running_) return;
    if (!is_group_ || ::kill(-process_->id(), number) != 0) ::kill(process_->id(), number);
  }

  void check_whether_it_runs() {
    error_code error;
    if (!process_->running(error)) return has_ended(error);
    poll_timer_.expires_after(limits::kGroupPoll);
    poll_timer_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled) self->check_whether_it_runs();
    });
  }

  void has_ended(const error_code& error) {
    status_ = error ? base::ExitStatus::exited(base::kExitOwnFault)
                    : base::ExitStatus::from_wait(process_->native_exit_code());
    give_up();
    kill_timer_.cancel();
    for (Stream& stream : streams_) {
      // abandon() may have closed the pipe, while the end of the process was already queued.
      if (stream.is_reading && stream.pipe.is_open()) stream.pipe.cancel();
    }
    resume();
  }

  // From now on, the pid may belong to another process, which the destructor of basic_process would kill.
  void give_up() {
    if (!is_running_) return;
    is_running_ = false;
    loop_.children.erase(process_->id());
    process_->detach();
  }

  void read_next(std::size_t stream) {
    Stream& one = streams_[stream];
    if (!one.pipe.is_open() || one.is_reading || (callbacks_.may_read && !callbacks_.may_read(stream))) return;
    one.is_reading = true;
    one.pipe.async_read_some(
        asio::buffer(one.buffer.get(), kReadAtOnce),
        [self = shared_from_this(), stream, was_running = is_running_](const error_code& error, std::size_t size) {
          Stream& read = self->streams_[stream];
          read.is_reading = false;
          if (size > 0 && self->callbacks_.read) self->callbacks_.read(stream, {read.buffer.get(), size});
          if (error && (error != asio::error::operation_aborted || !was_running) && read.pipe.is_open())
            read.pipe.close();
          self->read_next(stream);
          self->finish_if_read();
        });
    // The output of an ended process is in the pipe, and was read just now. The end of the pipe may never come, because
    // a connection that ssh shares and leaves behind (ControlPersist) also holds it open.
    if (!is_running_) one.pipe.cancel();
  }

  void write_next() {
    being_written_ = std::exchange(unwritten_, {});
    if (being_written_.empty() || !input_.is_open()) return;
    asio::async_write(input_, asio::buffer(being_written_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        self->being_written_.clear();
                        if (error) self->unwritten_.clear();  // the helper has ended, or is about to end
                        self->write_next();
                      });
  }

  void close_pipes() {
    if (input_.is_open()) input_.close();
    for (Stream& stream : streams_) {
      if (stream.pipe.is_open()) stream.pipe.close();
    }
  }

  void finish_if_read() {
    if (is_running_ || !callbacks_.ended) return;
    for (const Stream& stream : streams_) {
      if (stream.pipe.is_open()) return;
    }
    close_pipes();
    // This comes last, because the callback may destroy the Helper.
    const auto ended = std::exchange(callbacks_, {}).ended;
    ended(status_);
  }

  net::EventLoopAsio& loop_;
  HelperCallbacks callbacks_;
  std::optional<OwnedProcess> process_;
  base::UniqueFd end_;  // can be read when the process has ended; empty if the kernel has no pidfds
  std::unique_ptr<net::Watch> end_watch_;
  pid_t pid_ = 0;
  bool is_group_ = false;
  bool is_running_ = false;  // the process is not reaped yet
  bool is_ending_ = false;
  base::ExitStatus status_ = base::ExitStatus::exited(0);
  std::array<Stream, 2> streams_{Stream{asio::readable_pipe(loop_.context)},
                                 Stream{asio::readable_pipe(loop_.context)}};
  asio::writable_pipe input_{loop_.context};
  std::string unwritten_;
  std::string being_written_;
  asio::steady_timer kill_timer_{loop_.context};
  asio::steady_timer poll_timer_{loop_.context};
};

base::Result<std::unique_ptr<Helper>> Helper::start(net::EventLoop& loop, const HelperOptions& options,
                                                    HelperCallbacks callbacks) {
  const auto process = std::make_shared<Process>(loop.asio(), std::move(callbacks));
  error_code error;
  try {
    error = process->start(loop, options);
  } catch (const boost::system::system_error& failure) {  // Boost 1.83 throws when it cannot make a pipe
    error = failure.code();
  }
  if (error) return base::Failure{helper_not_started_text(options.command.front(), error.message())};
  return std::unique_ptr<Helper>(new Helper(process));
}

Helper::~Helper() {
  process_->abandon();
}

pid_t Helper::pid() const {
  return process_->pid();
}

void Helper::write_line(const std::string& line) {
  process_->write_line(line);
}

void Helper::end() {
  process_->end();
}

void Helper::resume() {
  process_->resume();
}

}  // namespace ddp::launcher
