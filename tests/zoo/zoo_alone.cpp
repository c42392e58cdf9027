// In these programs rank 1 does something else for a while, and then comes to the others.
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#include "zoo/zoo.h"

namespace zoo {
namespace {

using EndsByTimeout = std::function<bool()>;

// Waits in many system calls at a time, each in its own thread. Each must end by its own time-out, neither early nor by
// a signal.
void wait_in_calls() {
  const auto ends = connected_sockets();
  const timeval timeout{kIdleSeconds, 0};
  const timespec time{kIdleSeconds, 0};
  ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kIdleSeconds;
  sem_t semaphore;
  ::sem_init(&semaphore, 0, 0);
  const std::map<std::string, EndsByTimeout> calls = {
      {"recv",
       [&] {
         char byte = 0;
         return ::recv(ends[0], &byte, 1, 0) < 0 && errno == EAGAIN;
       }},
      {"poll",
       [&] {
         pollfd entry{ends[1], POLLIN, 0};
         return ::poll(&entry, 1, kIdleSeconds * 1000) == 0;
       }},
      {"epoll_wait",
       [] {
         epoll_event event{};
         return ::epoll_wait(::epoll_create1(EPOLL_CLOEXEC), &event, 1, kIdleSeconds * 1000) == 0;
       }},
      {"select",
       [&] {
         timeval left = timeout;
         return ::select(0, nullptr, nullptr, nullptr, &left) == 0;
       }},
      {"nanosleep", [&] { return ::nanosleep(&time, nullptr) == 0; }},
      {"sem_timedwait", [&] { return ::sem_timedwait(&semaphore, &until) < 0 && errno == ETIMEDOUT; }},
      {"sigtimedwait",
       [&] {
         sigset_t set;
         ::sigemptyset(&set);
         ::sigaddset(&set, SIGUSR2);
         ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
         return ::sigtimedwait(&set, nullptr, &time) < 0 && errno == EAGAIN;
       }},
      {"read of a timer",
       [] {
         const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
         itimerspec once{};
         once.it_value.tv_sec = kIdleSeconds;
         ::timerfd_settime(timer, 0, &once, nullptr);
         std::uint64_t count = 0;
         return ::read(timer, &count, sizeof count) == sizeof count;
       }},
  };
  std::vector<std::thread> threads;
  for (const auto& [call, ends_by_timeout] : calls) {
    threads.emplace_back([&what = call, &wait = ends_by_timeout] {
      const double began = now();
      require(wait(), what + " ended by something else than its time-out: " + std::strerror(errno));
      require(now() - began > kIdleSeconds - 0.5, what + " ended early");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Sends 160 KB/s.
void send_slowly(int socket, double seconds) {
  const std::vector<char> bytes(16'000);
  for (const double end = now() + seconds; now() < end; sleep_for(0.1)) {
    if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
  }
}

void receive_all(int socket) {
  std::vector<char> bytes(65'536);
  while (::recv(socket, bytes.data(), bytes.size(), 0) > 0) {
  }
}

void download(double seconds) {
  const auto ends = connected_sockets();
  std::thread sender([=] {
    send_slowly(ends[1], seconds);
    ::shutdown(ends[1], SHUT_WR);
  });
  receive_all(ends[0]);
  sender.join();
}

const std::map<std::string, Action> kAlone = {
    // The rank shows no sign of life.
    {"sleeps", of_rank_one([] { sleep_for(kIdleSeconds); })},
    {"waits_in_calls_with_a_timeout", of_rank_one(wait_in_calls)},
    {"waits_for_a_shell_that_polls", of_rank_one([] {
       run("i=0; while [ $i -lt " + std::to_string(kBusySeconds) + " ]; do sleep 1; i=$((i+1)); done");
     })},
    {"asks_for_more_time", of_rank_one([] {
       ddp::request_more_time(std::chrono::seconds(kBusySeconds));
       sleep_for(kBusySeconds - 4);
     })},
    {"is_stopped_for_a_while", of_rank_one([] {
       const pid_t self = ::getpid();
       const pid_t child = in_child([=] {
         sleep_for(kBusySeconds - 4);
         ::kill(self, SIGCONT);
       });
       ::kill(self, SIGSTOP);
       wait_for(child);
     })},
    {"is_debugged", of_rank_one([] {
       ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
       const pid_t self = ::getpid();
       const pid_t debugger = in_child([=] {
         require(::ptrace(PTRACE_SEIZE, self, nullptr, nullptr) == 0, "ptrace");
         ::ptrace(PTRACE_INTERRUPT, self, nullptr, nullptr);
         ::waitpid(self, nullptr, 0);
         sleep_for(kBusySeconds);
         ::ptrace(PTRACE_DETACH, self, nullptr, nullptr);
       });
       wait_for(debugger);
     })},
    // The rank shows signs of life for much longer than the limit for a rank without one.
    {"computes", of_rank_one([] { compute_for(kBusySeconds); })},
    {"has_a_child_that_computes", of_rank_one([] { wait_for(in_child([] { compute_for(kBusySeconds); })); })},
    {"has_a_daemon_that_computes", of_rank_one([] {
       const std::string path = "daemon_is_done";
       wait_for(in_child([&] {
         if (::fork() != 0) return;
         ::setsid();
         compute_for(kBusySeconds);
         run("touch " + path);
       }));
       while (::access(path.c_str(), F_OK) != 0) sleep_for(0.5);
       ::unlink(path.c_str());
     })},
    {"first_step_compiles", of_rank_one([] { wait_for(in_child([] { compute_for(kBusySeconds); })); })},
    {"prints", of_rank_one([] {
       for (int i = 0; i < kBusySeconds / 3; ++i) {
         std::puts("still at work");
         std::fflush(stdout);
         sleep_for(3);
       }
     })},
    {"sends_heartbeats", of_rank_one([] {
       for (int i = 0; i < kBusySeconds / 2; ++i) {
         ddp::heartbeat();
         sleep_for(2);
       }
     })},
    {"changes_its_phase", of_rank_one([] {
       for (int i = 0; i < kBusySeconds / 3; ++i) {
         const ddp::PhaseScope phase(ddp::Phase::evaluation, "batch " + std::to_string(i));
         sleep_for(3);
       }
     })},
    {"has_a_child_that_downloads", of_rank_one([] { wait_for(in_child([] { download(kBusySeconds); })); })},
    {"reads_a_slow_file", of_rank_one([] {
       std::array<char, 20'000> bytes{};
       const int file = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
       for (int i = 0; i < kBusySeconds * 2; ++i) {
         require(::read(file, bytes.data(), bytes.size()) > 0, "read");
         sleep_for(0.5);
       }
     })},
    {"touches_memory", of_rank_one([] {
       for (int i = 0; i < kBusySeconds * 2; ++i) {
         constexpr std::size_t kBytes = 1 << 20;
         void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         std::memset(memory, 1, kBytes);
         ::munmap(memory, kBytes);
         sleep_for(0.5);
       }
     })},
    {"starts_and_ends_processes", of_rank_one([] {
       for (int i = 0; i < kBusySeconds; ++i) {
         wait_for(in_child([] {}));
         sleep_for(1);
       }
     })},
};

}  // namespace

std::map<std::string, Action> alone() {
  return kAlone;
}

}  // namespace zoo
