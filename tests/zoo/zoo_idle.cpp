// In these programs a rank waits, and does nothing at all.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "zoo/zoo.h"

namespace zoo {
namespace {

// Requires that the call ends by its own time-out, neither early nor by a signal.
void lasts(const char* what, const std::function<bool()>& ends_by_timeout) {
  const double began = now();
  require(ends_by_timeout(), std::string(what) + " ended by something else than its time-out: " + std::strerror(errno));
  require(now() - began > kIdleSeconds - 0.5, std::string(what) + " ended early");
}

const std::map<std::string, Action> kIdle = {
    {"sleeps", of_rank_one([] { sleep_for(kIdleSeconds); })},
    {"waits_for_a_file_lock", of_rank_one([] {
       const std::string path = "lock";
       std::array<int, 2> locked{};
       require(::pipe(locked.data()) == 0, "pipe");
       const pid_t holder = in_child([&] {
         const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
         require(::flock(file, LOCK_EX) == 0, "flock");
         require(::write(locked[1], "x", 1) == 1, "write");
         sleep_for(kIdleSeconds);
       });
       char byte = 0;
       require(::read(locked[0], &byte, 1) == 1, "read");
       const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
       require(::flock(file, LOCK_EX) == 0, "flock");
       ::unlink(path.c_str());
       wait_for(holder);
     })},
    {"waits_for_a_subprocess_that_waits", of_rank_one([] { run("sleep " + std::to_string(kIdleSeconds)); })},
    {"waits_for_a_shell_that_polls", of_rank_one([] {
       run("i=0; while [ $i -lt " + std::to_string(kBusySeconds) + " ]; do sleep 1; i=$((i+1)); done");
     })},
    {"reads_a_pipe", of_rank_one([] {
       std::array<int, 2> ends{};
       require(::pipe(ends.data()) == 0, "pipe");
       std::thread writer([&] {
         sleep_for(kIdleSeconds);
         require(::write(ends[1], "x", 1) == 1, "write");
       });
       char byte = 0;
       require(::read(ends[0], &byte, 1) == 1, "read");
       writer.join();
     })},
    {"waits_for_a_condition", of_rank_one([] {
       std::mutex mutex;
       std::condition_variable condition;
       bool is_true = false;
       std::thread other([&] {
         sleep_for(kIdleSeconds);
         const std::lock_guard lock(mutex);
         is_true = true;
         condition.notify_one();
       });
       std::unique_lock lock(mutex);
       condition.wait(lock, [&] { return is_true; });
       lock.unlock();
       other.join();
     })},
    {"waits_for_a_future", of_rank_one([] { std::async(std::launch::async, [] { sleep_for(kIdleSeconds); }).get(); })},
    {"waits_for_a_mutex", of_rank_one([] {
       std::mutex mutex;
       mutex.lock();
       std::thread other([&] { const std::lock_guard lock(mutex); });
       sleep_for(kIdleSeconds);
       mutex.unlock();
       other.join();
     })},
    {"backs_off", of_rank_one([] {
       for (double pause = 0.5; pause < kIdleSeconds; pause *= 2) sleep_for(pause);
     })},
    {"receives_with_a_timeout", of_rank_one([] {
       const auto ends = connected_sockets();
       const timeval timeout{kIdleSeconds, 0};
       ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
       char byte = 0;
       lasts("recv", [&] { return ::recv(ends[0], &byte, 1, 0) < 0 && errno == EAGAIN; });
     })},
    {"polls_with_a_timeout", of_rank_one([] {
       const auto ends = connected_sockets();
       pollfd entry{ends[0], POLLIN, 0};
       lasts("poll", [&] { return ::poll(&entry, 1, kIdleSeconds * 1000) == 0; });
     })},
    {"waits_in_epoll", of_rank_one([] {
       const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
       epoll_event event{};
       lasts("epoll_wait", [&] { return ::epoll_wait(epoll, &event, 1, kIdleSeconds * 1000) == 0; });
     })},
    {"waits_in_select", of_rank_one([] {
       timeval timeout{kIdleSeconds, 0};
       lasts("select", [&] { return ::select(0, nullptr, nullptr, nullptr, &timeout) == 0; });
     })},
    {"sleeps_exactly", of_rank_one([] {
       const timespec time{kIdleSeconds, 0};
       lasts("nanosleep", [&] { return ::nanosleep(&time, nullptr) == 0; });
     })},
    {"waits_for_a_semaphore", of_rank_one([] {
       sem_t semaphore;
       ::sem_init(&semaphore, 0, 0);
       timespec until{};
       ::clock_gettime(CLOCK_REALTIME, &until);
       until.tv_sec += kIdleSeconds;
       lasts("sem_timedwait", [&] { return ::sem_timedwait(&semaphore, &until) < 0 && errno == ETIMEDOUT; });
     })},
    {"waits_for_a_signal", of_rank_one([] {
       sigset_t set;
       ::sigemptyset(&set);
       ::sigaddset(&set, SIGUSR2);
       ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
       const timespec time{kIdleSeconds, 0};
       lasts("sigtimedwait", [&] { return ::sigtimedwait(&set, nullptr, &time) < 0 && errno == EAGAIN; });
     })},
    {"waits_for_a_timer", of_rank_one([] {
       const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
       itimerspec time{};
       time.it_value.tv_sec = kIdleSeconds;
       ::timerfd_settime(timer, 0, &time, nullptr);
       std::uint64_t count = 0;
       require(::read(timer, &count, sizeof count) == sizeof count, "read of a timer");
     })},
    {"waits_for_a_file_to_change", of_rank_one([] {
       const int watch = ::inotify_init1(IN_CLOEXEC);
       std::string folder = "watched_XXXXXX";
       require(::mkdtemp(folder.data()) != nullptr, "mkdtemp");
       ::inotify_add_watch(watch, folder.c_str(), IN_CREATE);
       const pid_t child = in_child([&] {
         sleep_for(kIdleSeconds);
         run("touch " + folder + "/file");
       });
       std::array<char, 4096> events{};
       require(::read(watch, events.data(), events.size()) > 0, "read of inotify");
       wait_for(child);
       run("rm -r " + folder);
     })},
    {"waits_for_a_connection", of_rank_one([] {
       const std::string path = "socket";
       const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
       sockaddr_un name{};
       name.sun_family = AF_UNIX;
       path.copy(name.sun_path, sizeof name.sun_path - 1);
       require(::bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0 && ::listen(listener, 1) == 0,
               "listen");
       std::thread other([&] {
         sleep_for(kIdleSeconds);
         const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
         ::connect(client, reinterpret_cast<sockaddr*>(&name), sizeof name);
       });
       require(::accept(listener, nullptr, nullptr) >= 0, "accept");
       ::unlink(path.c_str());
       other.join();
     })},
    {"is_in_a_phase", of_rank_one([] {
       const ddp::PhaseScope phase(ddp::Phase::evaluation, "validation");
       sleep_for(kIdleSeconds);
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
};

}  // namespace

std::map<std::string, Action> idle() {
  return kIdle;
}

}  // namespace zoo
