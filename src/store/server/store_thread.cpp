#include "store/server/store_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <csignal>
#include <optional>

#include "store/limits.h"

namespace ddp::store {

using std::chrono::steady_clock;

StoreThread::StoreThread(std::unique_ptr<StoreServer> server)
    : server_(std::move(server)), port_(server_->port()), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // The thread blocks all signals, so that the program's own threads handle them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StoreThread::~StoreThread() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void StoreThread::run() {
  std::optional<steady_clock::time_point> until;
  while (!until || (steady_clock::now() < *until && !server_->report().clients.empty())) {
    // After a stop request, the loop checks periodically whether any client is still connected.
    pollfd entries[] = {{server_->fd(), POLLIN, 0}, {until ? -1 : stop_.get(), POLLIN, 0}};
    ::poll(entries, 2, until ? static_cast<int>(limits::kStoreGoodbyePoll.count()) : -1);
    if (entries[0].revents != 0) server_->serve();
    if (entries[1].revents != 0) until = steady_clock::now() + limits::kStoreGoodbye;
  }
  server_.reset();
}

}  // namespace ddp::store
