// CloneLauncher starts processes for Boost.Process v2 (docs/development/decisions/0034-boost-process-owns-children.md).
// A file that includes this one takes 3 s to compile.
#pragma once

#define BOOST_PROCESS_USE_STD_FS  // selects std::filesystem instead of Boost.Filesystem
#include <boost/asio/io_context.hpp>
#include <boost/optional.hpp>
#include <boost/type_traits.hpp>
#include <sys/eventfd.h>
#include <sys/wait.h>
// Boost.Process 1.81 uses the two headers above without including them.
#include <boost/process/v2/process.hpp>
#include <boost/process/v2/stdio.hpp>

#include <csignal>
#include <filesystem>

#include "launcher/run/process/clone_process.h"

namespace ddp::launcher {

namespace process_v2 = boost::process::v2;

// Owns the pid and the pidfd of a child. The destructor kills the child and waits for it; detach() gives it up.
using OwnedProcess = process_v2::basic_process<boost::asio::io_context::executor_type>;

// This is a launcher of Boost.Process v2, a callable that returns a basic_process. It derives from v2's own launcher
// because the initialisers of v2, which are called in the child, take a reference to that one. `env` is inherited, too.
//
//   CloneLauncher launch;
//   boost::system::error_code error;
//   OwnedProcess process = launch(context.get_executor(), error, "/bin/true", words, process_v2::process_stdio{});
class CloneLauncher : public process_v2::posix::default_launcher {
 public:
  CloneRequest request;  // the caller sets the members before `program`
  // This tells initialisers, which run in the child, whether the child was created in its cgroup.
  bool is_in_cgroup = false;
  // After a start, `failed_at` is the stage at which it failed. `pidfd` belongs to the process, and is -1 if the kernel
  // has no pidfds. The process then has another descriptor instead, and async_wait() never completes.
  StartStage failed_at = StartStage::none;
  int pidfd = -1;

  // Starts `program` with these words, of which the first is argv[0] and the last is null. Nothing of the process is
  // left if there is an error.
  template <typename... Initializers>
  OwnedProcess operator()(const OwnedProcess::executor_type& executor, boost::system::error_code& error,
                          const std::filesystem::path& program, const char* const* words,
                          Initializers&&... initializers) {
    request.program = program.c_str();
    request.arguments =
        const_cast<char* const*>(words);  // NOLINT(cppcoreguidelines-pro-type-const-cast): execve's type
    request.environment = const_cast<char* const*>(env);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    request.prepare = [&](bool is_there) {
      is_in_cgroup = is_there;
      boost::system::error_code failure;
      static_cast<void>((... && !(failure = initializers.on_exec_setup(*this, program, words))));
      return failure.value();
    };
    Cloned cloned = clone_process(request);
    failed_at = cloned.failed_at;
    error.assign(cloned.error, boost::system::system_category());
    if (error) return OwnedProcess(executor);
    pidfd = cloned.pidfd.get();
    if (pidfd < 0) cloned.pidfd.reset(::eventfd(0, EFD_CLOEXEC));
    try {
      OwnedProcess process(executor, cloned.pid, cloned.pidfd.get());
      cloned.pidfd.release();
      return process;
    } catch (const boost::system::system_error& failure) {
      ::kill(cloned.pid, SIGKILL);
      ::waitpid(cloned.pid, nullptr, 0);
      failed_at = StartStage::creation;
      error = failure.code();
      return OwnedProcess(executor);
    }
  }
};

}  // namespace ddp::launcher
