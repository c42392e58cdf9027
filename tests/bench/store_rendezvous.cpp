// store_rendezvous PORT PROTOCOL keys|barrier RANKS SERVER_PID
//
// Runs a whole rendezvous of RANKS ranks, each of which is a connection of this process. Each rank connects, greets,
// sends ADD init/ and passes a barrier. With `keys`, each rank ADDs to a counter and WAITs for a key, which the last
// one SETs. With `barrier`, each rank sends one BARRIER request. All begin at the same time. Prints JSON: the seconds
// until all are connected, and until the last one is released. It also has the growth of the server's memory per
// connection (resident, without the kernel's part).
#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>

#include "bench/load_client.h"
#include "wire/store_message.h"

namespace ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using wire::StoreOp;

struct Rank {
  explicit Rank(std::uint16_t port) : connection(port, false) {}

  LoadClient connection;
  std::size_t at = 0;  // index of the current step
  bool connected = false;
};

double resident_bytes(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  double kilobytes = 0;
  while (status >> word) {
    if (word == "VmRSS:") status >> kilobytes;
  }
  if (kilobytes == 0) throw std::runtime_error("process " + std::to_string(pid) + " has no memory");
  return kilobytes * 1024;
}

// Holds the steps of each rank. With `keys`, the reply to the last ADD shows which rank is the last one.
struct Rendezvous {
  Rendezvous(Protocol protocol, bool has_barrier, std::int64_t ranks) : steps(handshake(protocol)) {
    const auto dialect = protocol == Protocol::legacy ? wire::StoreDialect::legacy : wire::StoreDialect::current;
    const auto request = [&](StoreOp op, const std::string& key, std::int64_t number) {
      wire::StoreRequest made{.op = op, .keys = {key}, .values = {}, .delta = number};
      if (op == StoreOp::set) made.values = {"go"};
      return encode(made, dialect);
    };
    steps.push_back({request(StoreOp::add, "init/", 1), "", sizeof(std::int64_t)});
    const std::string released(1, static_cast<char>(wire::kStoreStopWaiting));
    if (has_barrier) {
      steps.push_back({request(StoreOp::barrier, "/barrier", ranks), released});
    } else {
      counted = steps.size();
      steps.push_back({request(StoreOp::add, "/barrier", 1), "", sizeof(std::int64_t)});
      steps.push_back({request(StoreOp::wait, "/go", 0), released});
      wire::put_i64(last_reply, ranks);
      release = {request(StoreOp::set, "/go", 0) + steps.back().request, released};
    }
  }

  std::vector<Step> steps;
  std::size_t counted = 0;  // index of the step whose reply may be last_reply; 0 if there is none
  std::string last_reply;
  Step release;
};

void run(char** words) {
  const auto port = static_cast<std::uint16_t>(std::stoi(words[1]));
  const std::size_t count = std::stoul(words[4]);
  const int pid = std::stoi(words[5]);
  const Rendezvous plan(protocol_of(words[2]), std::string(words[3]) == "barrier", static_cast<std::int64_t>(count));

  const base::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  const auto watch = [&](int how, int fd, std::uint32_t events, std::size_t index) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = index;
    if (::epoll_ctl(epoll.get(), how, fd, &event) != 0) throw system_error("epoll_ctl");
  };
  const double before = resident_bytes(pid);
  const auto start = Clock::now();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::size_t i = 0; i < count; ++i) {
    ranks.push_back(std::make_unique<Rank>(port));
    watch(EPOLL_CTL_ADD, ranks[i]->connection.fd(), EPOLLOUT, i);
  }
  std::size_t connected = 0;
  std::size_t released = 0;
  Clock::time_point all_connected;
  std::vector<epoll_event> events(1024);
  while (released < count) {
    const int ready = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), 30'000);
    if (ready <= 0) throw std::runtime_error("nothing for 30 seconds; released: " + std::to_string(released));
    for (int i = 0; i < ready; ++i) {
      const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
      Rank& rank = *ranks[index];
      if (!rank.connected) {
        rank.connected = true;
        if (++connected == count) all_connected = Clock::now();
        watch(EPOLL_CTL_MOD, rank.connection.fd(), EPOLLIN, index);
        rank.connection.send(plan.steps[0]);
        continue;
      }
      if (!rank.connection.receive()) continue;
      const bool is_last = plan.counted > 0 && rank.at == plan.counted && rank.connection.reply() == plan.last_reply;
      if (++rank.at == plan.steps.size()) {
        ++released;
      } else {
        rank.connection.send(is_last ? plan.release : plan.steps[rank.at]);
      }
    }
  }
  const auto end = Clock::now();
  const auto seconds = [&](Clock::time_point until) { return std::chrono::duration<double>(until - start).count(); };
  std::printf(R"({"seconds": %.3f, "connect_seconds": %.3f, "bytes_per_connection": %.0f})"
              "\n",
              seconds(end), seconds(all_connected), (resident_bytes(pid) - before) / static_cast<double>(count));
}

}  // namespace
}  // namespace ddp::bench

int main(int count, char** words) {
  if (count != 6) {
    std::fprintf(stderr, "usage: %s PORT current|legacy keys|barrier RANKS SERVER_PID\n", words[0]);
    return 2;
  }
  try {
    ddp::bench::run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_rendezvous: %s\n", error.what());
    return 1;
  }
}
