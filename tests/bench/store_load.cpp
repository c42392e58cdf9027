// store_load PORT PROTOCOL OPERATION CLIENTS SECONDS [VALUE_BYTES]
//
// Runs a closed loop: one thread has CLIENTS connections, and each sends its next request when it has the reply to the
// last. PROTOCOL is current, legacy or resp. OPERATION is one of load_script.h or `wake`. With `wake`, half of the
// clients (at least one) wait for a key, and each is woken by another client. Prints JSON: operations, seconds,
// operations per second, and the latency in µs. The latency of `wake` is the time from the waking request to the
// waiter's reply.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

#include "bench/load_client.h"

namespace ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Finds the clients that have something to read. A single client is read from without polling.
class Readiness {
 public:
  explicit Readiness(std::size_t clients) : events_(clients), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  void watch(int fd, std::uint32_t index) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = index;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw system_error("epoll_ctl");
  }

  template <typename Visit>
  void visit(Visit visit) {
    if (events_.size() == 1) return visit(0);
    const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 10'000);
    if (count == 0) throw std::runtime_error("the server has not answered anybody for 10 seconds");
    for (int i = 0; i < count; ++i) visit(events_[static_cast<std::size_t>(i)].data.u32);
  }

 private:
  std::vector<epoll_event> events_;
  base::UniqueFd epoll_;
};

struct Client {
  Client(std::uint16_t port, Protocol protocol) : connection(port, true) {
    for (const Step& step : handshake(protocol)) connection.round_trip(step);
  }

  LoadClient connection;
  std::vector<Step> steps;
  std::size_t at = 0;
  Clock::time_point start;
};

class Latencies {
 public:
  void add(Clock::duration time) {
    nanoseconds_.push_back(static_cast<std::uint32_t>(std::chrono::nanoseconds(time).count()));
  }
  std::size_t count() const { return nanoseconds_.size(); }
  double microseconds(double share) {
    if (nanoseconds_.empty()) return 0;
    const auto at = nanoseconds_.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(count() - 1));
    std::nth_element(nanoseconds_.begin(), at, nanoseconds_.end());
    return *at / 1e3;
  }

 private:
  std::vector<std::uint32_t> nanoseconds_;
};

using Clients = std::vector<std::unique_ptr<Client>>;

Clients connect(std::uint16_t port, Protocol protocol, std::size_t count, Readiness& readiness) {
  Clients clients;
  for (std::uint32_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(port, protocol));
    readiness.watch(clients.back()->connection.fd(), i);
  }
  return clients;
}

void repeat(Clients& clients, Readiness& readiness, Clock::time_point end, Latencies& latencies) {
  auto now = Clock::now();
  for (auto& client : clients) {
    client->start = now;
    client->connection.send(client->steps[0]);
  }
  while (now < end) {
    readiness.visit([&](std::uint32_t index) {
      Client& client = *clients[index];
      if (!client.connection.receive()) return;
      client.at = (client.at + 1) % client.steps.size();
      if (client.at == 0) {
        now = Clock::now();
        latencies.add(now - client.start);
        client.start = now;
      }
      client.connection.send(client.steps[client.at]);
    });
  }
}

// Client 2i waits, and client 2i+1 wakes it.
struct Pair {
  Pair(Protocol protocol, const std::string& key) : script(wake_script(protocol, key)) {}

  WakeScript script;
  enum class State { checking, waking, cleaning } state = State::checking;
  bool waiter_has_reply = false;
  bool waker_has_reply = false;
  Clock::time_point start;
};

void begin(Pair& pair, Client& waiter, Client& waker) {
  pair.state = Pair::State::checking;
  waiter.connection.send(pair.script.wait);
  waker.connection.send(pair.script.check);
}

void advance(Pair& pair, Client& waiter, Client& waker, bool is_waiter, Latencies& latencies) {
  if (is_waiter) latencies.add(Clock::now() - pair.start);
  switch (pair.state) {
    case Pair::State::checking:
      if (is_waiter) throw std::runtime_error("a waiter was woken too early");
      pair.state = Pair::State::waking;
      pair.waiter_has_reply = false;
      pair.waker_has_reply = pair.script.wake.reply.empty();
      pair.start = Clock::now();
      waker.connection.send(pair.script.wake);
      return;
    case Pair::State::waking:
      (is_waiter ? pair.waiter_has_reply : pair.waker_has_reply) = true;
      if (!pair.waiter_has_reply || !pair.waker_has_reply) return;
      if (pair.script.cleanup.request.empty()) return begin(pair, waiter, waker);
      pair.state = Pair::State::cleaning;
      waker.connection.send(pair.script.cleanup);
      return;
    case Pair::State::cleaning:
      begin(pair, waiter, waker);
  }
}

void wake(Clients& clients, Protocol protocol, Readiness& readiness, Clock::time_point end, Latencies& latencies) {
  std::vector<Pair> pairs;
  for (std::uint32_t i = 0; i < clients.size() / 2; ++i) {
    pairs.emplace_back(protocol, "/wake/" + std::to_string(::getpid()) + "/" + std::to_string(i));
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    begin(pairs[i], *clients[2 * i], *clients[2 * i + 1]);
  }
  while (Clock::now() < end) {
    readiness.visit([&](std::uint32_t index) {
      if (!clients[index]->connection.receive()) return;
      const std::size_t pair = index / 2;
      advance(pairs[pair], *clients[2 * pair], *clients[2 * pair + 1], index % 2 == 0, latencies);
    });
  }
}

void run(char** words, int count) {
  const auto port = static_cast<std::uint16_t>(std::stoi(words[1]));
  const Protocol protocol = protocol_of(words[2]);
  const std::string name = words[3];
  const std::size_t asked = std::stoul(words[4]);
  const double seconds = std::stod(words[5]);
  const std::string value(count > 6 ? std::stoul(words[6]) : 64, 'v');

  const std::size_t client_count = name == "wake" ? std::max<std::size_t>(asked / 2 * 2, 2) : asked;
  Readiness readiness(client_count);
  Clients clients = connect(port, protocol, client_count, readiness);
  if (name != "wake") {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const std::string key = "/bench/" + std::to_string(i);
      for (const Step& step : preparation(protocol, key, value)) clients[i]->connection.round_trip(step);
      clients[i]->steps = operation(protocol, name, key, value);
    }
  }
  Latencies latencies;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  if (name == "wake") {
    wake(clients, protocol, readiness, end, latencies);
  } else {
    repeat(clients, readiness, end, latencies);
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf(R"({"operations": %zu, "seconds": %.3f, "per_second": %.0f, "median_us": %.1f, "p99_us": %.1f})"
              "\n",
              latencies.count(), took, static_cast<double>(latencies.count()) / took, latencies.microseconds(0.5),
              latencies.microseconds(0.99));
}

}  // namespace
}  // namespace ddp::bench

int main(int count, char** words) {
  if (count < 6) {
    std::fprintf(stderr, "usage: %s PORT current|legacy|resp OPERATION CLIENTS SECONDS [VALUE_BYTES]\n", words[0]);
    return 2;
  }
  try {
    ddp::bench::run(words, count);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_load: %s\n", error.what());
    return 1;
  }
}
