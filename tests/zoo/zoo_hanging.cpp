// These programs never continue.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "zoo/zoo.h"

namespace zoo {
namespace {

[[noreturn]] void lock_each_other() {
  static std::mutex one;
  static std::mutex two;
  std::thread other([] {
    const std::lock_guard first(two);
    sleep_for(0.5);
    const std::lock_guard second(one);
  });
  const std::lock_guard first(one);
  sleep_for(0.5);
  const std::lock_guard second(two);
  sleep_for_ever();
}

// Mounts a file system whose server never answers. A process that opens something there is in state D. The mount
// namespace is new, and is gone with this process. Returns false if that is not allowed.
bool mount_dead_file_system(const std::string& directory) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  const int server = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (server < 0) return false;
  ::mkdir(directory.c_str(), 0700);
  const std::string options = "fd=" + std::to_string(server) + ",rootmode=40000,user_id=0,group_id=0";
  return ::mount("zoo", directory.c_str(), "fuse", 0, options.c_str()) == 0;
}

// The rank is killed while a debugger traces it and never waits for it. So the launcher cannot reap the rank.
void die_under_a_debugger() {
  const pid_t rank = ::getpid();
  if (::fork() == 0) {
    ::setsid();
    if (::ptrace(PTRACE_SEIZE, rank, nullptr, nullptr) != 0) ::_exit(1);
    ::kill(rank, SIGKILL);
    sleep_for_ever();
  }
  sleep_for_ever();
}

// --- In these programs rank 1 does something else forever.

const std::map<std::string, Action> kAlone = {
    {"locks_a_mutex_twice", of_rank_one([] {
       static std::mutex mutex;
       mutex.lock();
       mutex.lock();  // NOLINT(clang-analyzer-*)
     })},
    {"waits_for_a_condition_for_ever", of_rank_one([] {
       std::mutex mutex;
       std::condition_variable condition;
       std::unique_lock lock(mutex);
       condition.wait(lock, [] { return false; });
     })},
    {"locks_in_different_orders", of_rank_one([] { lock_each_other(); })},
    {"reads_a_pipe_for_ever", of_rank_one([] {
       std::array<int, 2> ends{};
       char byte = 0;
       if (::pipe(ends.data()) == 0) [[maybe_unused]]
         const ssize_t got = ::read(ends[0], &byte, 1);
     })},
    {"opens_a_fifo_without_a_writer", of_rank_one([] {
       const std::string path = "fifo";
       ::mkfifo(path.c_str(), 0600);
       ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
     })},
    {"pauses", of_rank_one([] { sleep_for_ever(); })},
    {"sleeps_for_days", of_rank_one([] { sleep_for(1e6); })},
    {"has_a_dead_child_and_pauses", of_rank_one([] {
       if (::fork() == 0) ::_exit(0);
       sleep_for_ever();
     })},
    {"waits_for_a_child_for_ever", of_rank_one([] {
       if (::fork() == 0) sleep_for_ever();
       ::wait(nullptr);
     })},
    {"runs_a_program_that_never_ends",
     of_rank_one([] { [[maybe_unused]] const int ended = std::system("sleep 100000"); })},
    {"joins_a_thread_that_never_ends", of_rank_one([] { std::thread([] { sleep_for_ever(); }).join(); })},
    {"polls_for_ever", of_rank_one([] {
       while (true) ::poll(nullptr, 0, -1);
     })},
    {"waits_in_epoll_for_ever", of_rank_one([] {
       epoll_event event{};
       while (true) ::epoll_wait(::epoll_create1(EPOLL_CLOEXEC), &event, 1, -1);
     })},
    {"selects_for_ever", of_rank_one([] {
       while (true) ::select(0, nullptr, nullptr, nullptr, nullptr);
     })},
    {"accepts_for_ever", of_rank_one([] {
       const std::string path = "accept";
       const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
       sockaddr_un name{};
       name.sun_family = AF_UNIX;
       path.copy(name.sun_path, sizeof name.sun_path - 1);
       if (::bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) ::listen(listener, 1);
       while (true) ::accept(listener, nullptr, nullptr);
     })},
    {"waits_for_a_semaphore_for_ever", of_rank_one([] {
       sem_t semaphore;
       ::sem_init(&semaphore, 0, 0);
       while (true) ::sem_wait(&semaphore);
     })},
    {"waits_for_a_message_for_ever", of_rank_one([] {
       static_cast<void>(::unshare(CLONE_NEWIPC));  // the queue goes with the process, if the zoo runs as root
       const int queue = ::msgget(IPC_PRIVATE, 0600);
       std::array<char, 64> message{};
       while (::msgrcv(queue, message.data(), 8, 0, 0) < 0 && errno == EINTR) {
       }
     })},
    {"waits_for_a_signal_for_ever", of_rank_one([] {
       sigset_t set;
       ::sigemptyset(&set);
       ::sigaddset(&set, SIGUSR2);
       ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
       while (true) ::sigwaitinfo(&set, nullptr);
     })},
    {"is_the_parent_of_a_vfork", of_rank_one([] {
       if (::vfork() == 0) {  // NOLINT: this is what hangs; the parent is in state D until the child ends
         while (true) ::pause();
       }
     })},
    {"has_a_stuck_data_loader", of_rank_one([] {
       std::mutex mutex;
       std::condition_variable condition;
       bool has_batch = false;
       std::thread loader([] { sleep_for_ever(); });
       std::unique_lock lock(mutex);
       condition.wait(lock, [&] { return has_batch; });
     })},
    {"has_a_watchdog_thread_and_hangs", of_rank_one([] {
       // Like PyTorch's threads, this thread wakes ten times per second and is done immediately.
       std::thread([] {
         while (true) sleep_for(0.1);
       }).detach();
       sleep_for_ever();
     })},
    {"waits_for_a_lock_of_a_rank_that_waits_for_it",
     [](ddp::ProcessGroup& world) {
       const std::string path = "shared_lock";
       const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
       if (world.rank() == 0) ::flock(file, LOCK_EX);
       world.barrier().wait();
       if (world.rank() == 1) ::flock(file, LOCK_EX);
     }},
    {"loops_for_ever", of_rank_one([] { use_processor(1e6); })},
    {"yields_for_ever", of_rank_one([] {
       while (true) std::this_thread::yield();
     })},
    {"loops_in_a_thread_and_joins_it", of_rank_one([] { std::thread([] { use_processor(1e6); }).join(); })},
    {"prints_for_ever", of_rank_one([] {
       while (true) {
         std::puts("waiting for the data");
         std::fflush(stdout);
         sleep_for(2);
       }
     })},
    {"is_stopped_for_ever", of_rank_one([] { ::raise(SIGSTOP); })},
    {"is_dead_under_a_debugger", of_rank_one(die_under_a_debugger)},
    {"opens_a_file_of_a_dead_file_system", of_rank_one([] {
       require(mount_dead_file_system("dead"), "mount");
       ::open("dead/file", O_RDONLY | O_CLOEXEC);
     })},
};

}  // namespace

std::map<std::string, Action> hanging() {
  std::map<std::string, Action> all = kAlone;
  if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) all.erase("opens_a_file_of_a_dead_file_system");
  return all;
}

}  // namespace zoo
