// ddp_torch_reader FILE PAGE RING [FILE PAGE RING...] reads PyTorch's flight recorder in each worker of this node about
// once per second. It writes the recorded calls to the worker's status page and to its record ring. It is a separate
// program, because it reads data of the workers, which may contain anything. Data that make it fail or hang do not harm
// the job.
//
// FILE.groups is written by code in the worker's Python, and FILE.sock is the server there. Both may appear later. The
// page can be opened at PAGE, and the ring at RING, which is empty if there is none. The program runs until it is
// killed.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/unique_fd.h"
#include "torch_reader/page_writer.h"
#include "torch_reader/recording.h"
#include "torch_reader/ring_writer.h"
#include "torch_reader/worker_server.h"

namespace {

using Clock = std::chrono::steady_clock;
using ddp::wire::StatusPageLayout;

// The interval is at most doubled if an answer takes long, because samples older than limits::kLatestSample are
// ignored.
constexpr std::chrono::milliseconds kInterval{1000};
constexpr std::chrono::milliseconds kLongestInterval{2000};
constexpr int kShare = 50;
constexpr std::chrono::milliseconds kLatest{2000};

StatusPageLayout* map_page(const char* path) {
  const ddp::base::UniqueFd file(::open(path, O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size != sizeof(StatusPageLayout)) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* page = static_cast<StatusPageLayout*>(memory);
  return page->magic == ddp::wire::kPageMagic && page->version == ddp::wire::kPageVersion ? page : nullptr;
}

ddp::torch_reader::Moment now() {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  const auto count = [](auto time) {
    return static_cast<std::uint64_t>(duration_cast<nanoseconds>(time.time_since_epoch()).count());
  };
  return {count(Clock::now()), count(std::chrono::system_clock::now())};
}

struct Worker {
  std::string file;
  StatusPageLayout* page = nullptr;
  ddp::torch_reader::RingWriter ring;
  Clock::time_point next{};

  void look() {
    const auto begun = Clock::now();
    next = begun + kInterval;
    const auto lines = ddp::torch_reader::read_lines(ddp::base::read_file(file + ".groups"));
    if (lines.pid == 0 || lines.groups.empty()) return;
    // The time is taken before the query; the next query reports later events.
    const auto moment = now();
    const auto answer = ddp::torch_reader::ask(file + ".sock", "fr_trace_json", kLatest);
    next = begun + std::clamp<Clock::duration>(kShare * (Clock::now() - begun), kInterval, kLongestInterval);
    if (!answer) return;
    const auto groups = ddp::torch_reader::read_recording(answer.value(), lines);
    const bool is_shown = groups && ddp::torch_reader::write_to_page(*page, lines.pid, groups.value(), moment);
    if (is_shown) ring.write(*page, lines.pid, groups.value(), moment);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  std::vector<Worker> workers;
  for (std::size_t i = 1; i + 2 < arguments.size(); i += 3) {
    StatusPageLayout* page = map_page(arguments[i + 1]);
    if (page != nullptr) workers.push_back({arguments[i], page, ddp::torch_reader::RingWriter(arguments[i + 2])});
  }
  if (workers.empty()) {
    std::cerr << "ddp_torch_reader: cannot open a status page\n";
    return EXIT_FAILURE;
  }
  while (true) {
    for (Worker& worker : workers) {
      if (Clock::now() >= worker.next) worker.look();
    }
    const auto earliest = std::ranges::min_element(workers, {}, &Worker::next)->next;
    std::this_thread::sleep_until(std::min(earliest, Clock::now() + kInterval));
  }
}
