// zoo KIND: runs a training loop. After a few steps its ranks behave according to KIND, and then continue.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "zoo/zoo.h"

namespace zoo {

Action of_rank_one(std::function<void()> action) {
  return [action = std::move(action)](ddp::ProcessGroup& world) {
    if (world.rank() == 1) action();
  };
}

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Sleeps for the whole time, whatever signals arrive.
void sleep_for(double seconds) {
  for (const double end = now() + seconds; now() < end;) {
    const double left = end - now();
    timespec time{static_cast<time_t>(left),
                  static_cast<long>((left - static_cast<double>(static_cast<time_t>(left))) * 1e9)};
    if (left > 0) ::nanosleep(&time, nullptr);
  }
}

void sleep_for_ever() {
  while (true) ::pause();
}

void use_processor(double seconds) {
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  volatile double sum = 0;
  for (const double end = used() + seconds; used() < end;) {
    for (int i = 0; i < 10'000; ++i) sum = sum + 1.0 / (i + 1);
  }
}

void compute_for(double seconds) {
  for (const double end = now() + seconds; now() < end;) {
    use_processor(0.002);
    sleep_for(0.018);
  }
}

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "zoo: disturbed: %s\n", what.c_str());
  std::_Exit(99);
}

void run(const std::string& command) {
  require(std::system(command.c_str()) == 0, command);  // NOLINT: the zoo's own words
}

pid_t in_child(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  action();
  std::_Exit(0);
}

void wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) require(errno == EINTR, "waitpid");
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child failed");
}

void exchange_in_a_batch(ddp::ProcessGroup& world) {
  std::vector<float> to(64);
  std::vector<float> from(64);
  const int size = world.size();
  std::vector<ddp::Work> works;
  {
    const ddp::CollectiveBatch batch = world.batch();
    works.push_back(world.send(to, (world.rank() + 1) % size));
    works.push_back(world.recv(from, (world.rank() + size - 1) % size));
  }
  for (ddp::Work& work : works) work.wait();
}

std::array<int, 2> connected_sockets() {
  std::array<int, 2> ends{};
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* name = reinterpret_cast<sockaddr*>(&address);
  require(::bind(listener, name, length) == 0 && ::listen(listener, 1) == 0, "listen");
  require(::getsockname(listener, name, &length) == 0, "getsockname");
  ends[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(::connect(ends[0], name, length) == 0, "connect");
  ends[1] = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  ::close(listener);
  return ends;
}

}  // namespace zoo

namespace {

constexpr const char* kPlain = "plain_sleeps";  // it does not use the runtime, so the launcher sees only its process

// Trains in a loop with `action` in the middle of it.
void train(const std::string& kind, const zoo::Action& action) {
  constexpr int kSteps = 24;
  constexpr int kStepOfAction = 12;
  ddp::ProcessGroup world = ddp::init();
  std::vector<float> values(256);
  for (int step = 0; step < kSteps; ++step) {
    zoo::sleep_for(0.02);
    if (step == (kind.starts_with("first_step") ? 0 : kStepOfAction)) action(world);
    world.all_reduce(values, ddp::ReduceOp::sum, {.name = "bucket 0"}).wait();
  }
  world.finalize();
  if (world.rank() == 0) std::puts("done");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  std::map<std::string, zoo::Action> actions;
  for (const auto& some :
       {zoo::alone(), zoo::together(), zoo::ends(), zoo::starved(), zoo::hanging(), zoo::network()}) {
    actions.insert(some.begin(), some.end());
  }
  if (kind == "list") {
    for (const auto& [name, action] : actions) std::puts(name.c_str());
    std::puts(kPlain);
    return 0;
  }
  if (kind == kPlain) {
    zoo::sleep_for(zoo::kBusySeconds);
    std::puts("done");
    return 0;
  }
  const auto action = actions.find(kind);
  if (action == actions.end()) {
    std::fprintf(stderr, "zoo: no kind '%s'\n", kind.c_str());
    return 2;
  }
  try {
    train(kind, action->second);
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "zoo: %s\n", error.what());
    return 1;
  }
}
