// store_client_bench PORT OPERATION CLIENTS SECONDS
//
// Measures ddp::Store, the project's own client, against a store server. CLIENTS processes, with one connection each,
// repeat OPERATION (set, get, add, check). Prints JSON: the operations per second of all clients together.
#include <ddp/store.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// All processes share this memory: they start together and add up what they did.
struct Shared {
  std::atomic<int> ready = 0;
  std::atomic<bool> go = false;
  std::atomic<std::uint64_t> operations = 0;
};

void client(Shared& shared, std::uint16_t port, const std::string& operation, int number, double seconds) {
  const auto store = ddp::connect_tcp_store("127.0.0.1", port, std::chrono::seconds(60));
  const std::string key = "client/" + std::to_string(number);
  const std::string counter = key + "/count";
  const std::string value(64, 'v');
  store->set(key, value);
  store->get(key);
  shared.ready += 1;
  while (!shared.go) ::usleep(1000);
  std::uint64_t count = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    if (operation == "set") store->set(key, value);
    if (operation == "get") store->get(key);
    if (operation == "add") store->add(counter, 1);
    if (operation == "check") store->check(std::vector{key});
    ++count;
  }
  if (operation == "set") store->get(key);  // a set has no reply; after this get, all are carried out
  shared.operations += count;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    std::fprintf(stderr, "usage: %s PORT set|get|add|check CLIENTS SECONDS\n", words[0]);
    return 2;
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(words[1]));
  const std::string operation = words[2];
  const int clients = std::stoi(words[3]);
  const double seconds = std::stod(words[4]);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto& shared = *new (memory) Shared;
  for (int i = 0; i < clients; ++i) {
    if (::fork() != 0) continue;
    client(shared, port, operation, i, seconds);
    std::_Exit(0);
  }
  while (shared.ready < clients) ::usleep(1000);
  const auto start = Clock::now();
  shared.go = true;
  int status = 0;
  while (::wait(&status) > 0) {
    if (status != 0) return 1;
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf(R"({"operations": %llu, "seconds": %.3f, "per_second": %.0f})"
              "\n",
              static_cast<unsigned long long>(shared.operations.load()), took,
              static_cast<double>(shared.operations) / took);
}
