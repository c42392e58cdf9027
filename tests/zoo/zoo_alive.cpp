// In these programs a rank shows signs of life for much longer than the limit for a rank without one.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
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

void download(int socket, int other_end, double seconds) {
  std::thread sender([=] {
    send_slowly(other_end, seconds);
    ::shutdown(other_end, SHUT_WR);
  });
  receive_all(socket);
  sender.join();
}

const std::map<std::string, Action> kAlive = {
    {"computes", of_rank_one([] { compute_for(kBusySeconds); })},
    {"computes_in_a_thread", of_rank_one([] { std::thread([] { compute_for(kBusySeconds); }).join(); })},
    {"computes_a_little", of_rank_one([] {
       for (int i = 0; i < kBusySeconds * 5; ++i) {
         use_processor(0.01);
         sleep_for(0.19);
       }
     })},
    {"has_a_child_that_computes", of_rank_one([] { wait_for(in_child([] { compute_for(kBusySeconds); })); })},
    {"has_children_one_after_the_other", of_rank_one([] {
       for (int i = 0; i < kBusySeconds; ++i) wait_for(in_child([] { compute_for(1); }));
     })},
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
    {"runs_a_pipeline_of_programs", of_rank_one([] {
       run("for i in $(seq " + std::to_string(5 * kBusySeconds) +
           "); do head -c 100000 /dev/urandom; sleep 0.2; done | gzip > /dev/null");
     })},
    {"runs_an_interpreter", of_rank_one([] {
       run("python3 -c 'import time\nend = time.monotonic() + " + std::to_string(kBusySeconds) +
           "\nwhile time.monotonic() < end: sum(range(100000)); time.sleep(0.01)'");
     })},
    {"compiles", of_rank_one([] {
       for (const double end = now() + kBusySeconds; now() < end; sleep_for(0.2))
         run("echo 'int f(){return 1;}' | cc -x c -c -o /dev/null -");
     })},
    {"first_step_compiles", of_rank_one([] { wait_for(in_child([] { compute_for(kBusySeconds); })); })},
    {"prints", of_rank_one([] {
       for (int i = 0; i < kBusySeconds / 3; ++i) {
         std::puts("still at work");
         std::fflush(stdout);
         sleep_for(3);
       }
     })},
    {"shows_a_progress_bar", of_rank_one([] {
       for (int i = 0; i < kBusySeconds; ++i) {
         std::fprintf(stderr, "\r%d %%", i);
         sleep_for(1);
       }
       std::fputs("\n", stderr);
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
    {"downloads", of_rank_one([] {
       const auto ends = connected_sockets();
       download(ends[0], ends[1], kBusySeconds);
     })},
    {"downloads_in_a_thread", of_rank_one([] {
       const auto ends = connected_sockets();
       std::thread([&] { download(ends[0], ends[1], kBusySeconds); }).join();
     })},
    {"has_a_child_that_downloads", of_rank_one([] {
       wait_for(in_child([] {
         const auto ends = connected_sockets();
         download(ends[0], ends[1], kBusySeconds);
       }));
     })},
    {"reads_a_slow_file", of_rank_one([] {
       std::array<char, 20'000> bytes{};
       const int file = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
       for (int i = 0; i < kBusySeconds * 2; ++i) {
         require(::read(file, bytes.data(), bytes.size()) > 0, "read");
         sleep_for(0.5);
       }
     })},
    {"writes_to_a_slow_disk", of_rank_one([] {
       std::FILE* file = std::tmpfile();
       const std::vector<char> bytes(20'000);
       for (int i = 0; i < kBusySeconds; ++i) {
         require(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size(), "fwrite");
         std::fflush(file);
         ::fsync(::fileno(file));
         sleep_for(1);
       }
       std::fclose(file);
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
    {"makes_many_threads", of_rank_one([] {
       for (int i = 0; i < kBusySeconds * 2; ++i) {
         std::vector<std::thread> threads;
         for (int t = 0; t < 20; ++t) threads.emplace_back([] { use_processor(0.001); });
         for (std::thread& thread : threads) thread.join();
         sleep_for(0.5);
       }
     })},
};

}  // namespace

std::map<std::string, Action> alive() {
  return kAlive;
}

}  // namespace zoo
